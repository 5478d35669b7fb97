/* The loop of the compiled engine in C, for links that carry one transfer at a time: what a machine can do.

   finished    tasks that are over now, to be reported to those that wait for them
   lines       one queue per link, ordered by (ready time, task); a transfer begins when it is first in the queue of
               every link of its route and all of those are free

   at each time, again and again:  all that ends now is finished, and what that sets free begins;
                                   then links are granted; then time advances */

#include "loop.h"

typedef struct {
    int64_t ready;
    int32_t task;
} Waiting;

typedef struct {
    Waiting *line; /* room for every transfer that ever crosses the link */
    int32_t head, tail;
    bool taken;
} Link;

typedef struct {
    Loop loop;
    Link *links;
    Waiting *lines;
    int32_t *finished, *turn, *freed;
    int32_t finished_count, freed_count;
} Run;

static void leave_links(Run *run, int32_t task) {
    const Task *tasks = run->loop.tasks;
    for (int32_t at = tasks[task].first_medium; at < tasks[task + 1].first_medium; at++) {
        int32_t m = run->loop.medium[at];
        run->links[m].taken = false;
        if (run->links[m].head < run->links[m].tail) run->freed[run->freed_count++] = m;
    }
}

/* All that happens now, until nothing more ends now. */
static void settle(Run *run) {
    Loop *loop = &run->loop;
    for (;;) {
        while (run->finished_count) finish(loop, run->finished[--run->finished_count]);
        if (!happens_now(loop)) return;
        int32_t task = pop(loop);
        run->finished[run->finished_count++] = task;
        if (loop->tasks[task].lane < 0) leave_links(run, task);
    }
}

static void line_up(Link *link, int64_t ready, int32_t task) {
    int32_t at = link->tail++;
    for (; at > link->head; at--) {
        Waiting before = link->line[at - 1];
        if (before.ready < ready || (before.ready == ready && before.task < task)) break;
        link->line[at] = before;
    }
    link->line[at] = (Waiting){ready, task};
}

/* One that has just become ready begins if no other is before it on any link, else it queues on all of them: perhaps
   before others that became ready now, so that it may start immediately. Returns whether it begins. */
static bool arrive(Run *run, int32_t task) {
    const Task *tasks = run->loop.tasks;
    int32_t from = tasks[task].first_medium, to = tasks[task + 1].first_medium;
    bool may = true;
    for (int32_t at = from; at < to && may; at++) {
        const Link *link = &run->links[run->loop.medium[at]];
        may = !link->taken && link->head == link->tail;
    }
    for (int32_t at = from; at < to; at++) {
        Link *link = &run->links[run->loop.medium[at]];
        if (may)
            link->taken = true;
        else
            line_up(link, run->loop.now, task);
    }
    if (may) begin(&run->loop, task);
    return may;
}

static void take_turn(Run *run, int32_t task) {
    const Task *tasks = run->loop.tasks;
    int32_t from = tasks[task].first_medium, to = tasks[task + 1].first_medium;
    for (int32_t at = from; at < to; at++) {
        const Link *link = &run->links[run->loop.medium[at]];
        if (link->taken || link->head == link->tail || link->line[link->head].task != task) return;
    }
    for (int32_t at = from; at < to; at++) {
        Link *link = &run->links[run->loop.medium[at]];
        link->taken = true;
        link->head++;
    }
    begin(&run->loop, task);
}

static void grant(Run *run) {
    Loop *loop = &run->loop;
    int32_t turns = 0;
    for (int32_t at = 0; at < run->freed_count; at++) {
        const Link *link = &run->links[run->freed[at]];
        if (link->head < link->tail) run->turn[turns++] = link->line[link->head].task;
    }
    run->freed_count = 0;
    for (int32_t at = 1; at < loop->asking_count; at++) { /* few at once, and nearly in order */
        int32_t task = loop->asking[at], place = at;
        for (; place > 0 && loop->asking[place - 1] > task; place--) loop->asking[place] = loop->asking[place - 1];
        loop->asking[place] = task;
    }
    for (int32_t at = 0; at < loop->asking_count; at++)
        if (!arrive(run, loop->asking[at])) run->turn[turns++] = loop->asking[at];
    loop->asking_count = 0;
    for (int32_t at = 0; at < turns; at++) take_turn(run, run->turn[at]);
}

/* Each link's queue is a part of one array, with room for all that ever cross it. */
static void lay_lines(Run *run, const Program *program) {
    Waiting *line = run->lines;
    for (int64_t at = 0; at < program->route.starts[program->tasks]; at++) run->links[run->loop.medium[at]].tail++;
    for (int64_t m = 0; m < program->media; m++) {
        run->links[m].line = line;
        line += run->links[m].tail;
        run->links[m].tail = 0;
    }
}

/* Fills start and end; returns whether there is enough memory. */
bool play(const Program *program) {
    bool enough = true;
    int64_t crossings = program->route.starts[program->tasks];
    Run run = {.loop = opened(program, program->tasks, &enough)};
    Loop *loop = &run.loop;
    run.links = room(program->media, sizeof *run.links, &enough);
    run.lines = room(crossings, sizeof *run.lines, &enough);
    run.finished = room(program->tasks, sizeof *run.finished, &enough);
    run.turn = room(program->tasks + crossings, sizeof *run.turn, &enough);
    run.freed = room(crossings, sizeof *run.freed, &enough);
    if (enough) {
        lay_tasks(loop, program);
        lay_lines(&run, program);
        lay_order(loop, program);
        begin_first(loop, program);
        for (;;) {
            settle(&run);
            if (loop->asking_count || run.freed_count) grant(&run);
            if (!loop->heap_size) break;
            loop->now = loop->heap[0].time;
        }
    }
    closed(loop);
    free(run.links), free(run.lines), free(run.finished), free(run.turn), free(run.freed);
    return enough;
}
