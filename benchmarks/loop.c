/* The loop of the compiled engine in C, for links that carry one transfer at a time: what a machine can do.

   ends        a heap of (time, task): what is over next
   finished    tasks that are over now, to be reported to those that wait for them
   asking      transfers that have become ready now
   lines       one queue per link, ordered by (ready time, task); a transfer begins when it is first in the queue of
               every link of its route and all of those are free

   at each time, again and again:  all that ends now is finished, and what that sets free begins;
                                   then links are granted; then time advances

   Columns are those of a Program: row t of a ragged column is values[starts[t]] .. values[starts[t + 1] - 1]. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const int64_t *starts, *values;
} Ragged;

typedef struct {
    int64_t time;
    int32_t task;
} Event;

typedef struct {
    int64_t ready;
    int32_t task;
} Waiting;

/* What the loop reads of a task, side by side, so that it is fetched at once. */
typedef struct {
    int64_t duration;
    int32_t lane, missing, first_waiter, first_medium;
} Task;

typedef struct {
    Waiting *line; /* room for every transfer that ever crosses the link */
    int32_t head, tail;
    bool taken;
} Link;

typedef struct {
    Task *tasks; /* and one more, where the last one's rows end */
    int32_t *waiter, *medium, *order;
    int32_t *next, *order_end; /* of each lane, in `order` */
    int64_t *start, *end;
    bool *busy;
    Link *links;
    Waiting *lines;
    Event *heap;
    int32_t heap_size;
    int32_t *finished, *asking, *turn, *freed;
    int32_t finished_count, asking_count, freed_count;
    int64_t now;
} Run;

static void push(Run *run, int64_t time, int32_t task) {
    Event *heap = run->heap;
    int32_t at = run->heap_size++;
    while (at > 0) {
        int32_t above = (at - 1) / 2;
        if (heap[above].time <= time) break;
        heap[at] = heap[above];
        at = above;
    }
    heap[at] = (Event){time, task};
}

static int32_t pop(Run *run) {
    Event *heap = run->heap, last = heap[--run->heap_size];
    int32_t first = heap[0].task, size = run->heap_size, at = 0;
    for (;;) {
        int32_t below = 2 * at + 1;
        if (below >= size) break;
        if (below + 1 < size && heap[below + 1].time < heap[below].time) below++;
        if (heap[below].time >= last.time) break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = last;
    return first;
}

static void begin(Run *run, int32_t task) {
    run->start[task] = run->now;
    push(run, run->now + run->tasks[task].duration, task);
}

/* The next task of a lane begins if the lane is free and the task misses nothing. */
static void begin_on(Run *run, int32_t lane) {
    if (run->busy[lane] || run->next[lane] == run->order_end[lane]) return;
    int32_t task = run->order[run->next[lane]];
    if (run->tasks[task].missing) return;
    run->busy[lane] = true;
    begin(run, task);
}

static void finish(Run *run, int32_t task) {
    int32_t lane = run->tasks[task].lane;
    run->end[task] = run->now;
    if (lane >= 0) {
        run->busy[lane] = false;
        run->next[lane]++;
        begin_on(run, lane);
    }
    for (int32_t at = run->tasks[task].first_waiter; at < run->tasks[task + 1].first_waiter; at++) {
        Task *next = &run->tasks[run->waiter[at]];
        if (--next->missing) continue;
        if (next->lane < 0)
            run->asking[run->asking_count++] = run->waiter[at];
        else
            begin_on(run, next->lane);
    }
}

static void leave_links(Run *run, int32_t task) {
    for (int32_t at = run->tasks[task].first_medium; at < run->tasks[task + 1].first_medium; at++) {
        int32_t m = run->medium[at];
        run->links[m].taken = false;
        if (run->links[m].head < run->links[m].tail) run->freed[run->freed_count++] = m;
    }
}

/* All that happens now, until nothing more ends now. */
static void settle(Run *run) {
    for (;;) {
        while (run->finished_count) finish(run, run->finished[--run->finished_count]);
        if (!run->heap_size || run->heap[0].time > run->now) return;
        int32_t task = pop(run);
        run->finished[run->finished_count++] = task;
        if (run->tasks[task].lane < 0) leave_links(run, task);
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
    int32_t from = run->tasks[task].first_medium, to = run->tasks[task + 1].first_medium;
    bool may = true;
    for (int32_t at = from; at < to && may; at++) {
        const Link *link = &run->links[run->medium[at]];
        may = !link->taken && link->head == link->tail;
    }
    for (int32_t at = from; at < to; at++) {
        Link *link = &run->links[run->medium[at]];
        if (may)
            link->taken = true;
        else
            line_up(link, run->now, task);
    }
    if (may) begin(run, task);
    return may;
}

static void take_turn(Run *run, int32_t task) {
    int32_t from = run->tasks[task].first_medium, to = run->tasks[task + 1].first_medium;
    for (int32_t at = from; at < to; at++) {
        const Link *link = &run->links[run->medium[at]];
        if (link->taken || link->head == link->tail || link->line[link->head].task != task) return;
    }
    for (int32_t at = from; at < to; at++) {
        Link *link = &run->links[run->medium[at]];
        link->taken = true;
        link->head++;
    }
    begin(run, task);
}

static void grant(Run *run) {
    int32_t turns = 0;
    for (int32_t at = 0; at < run->freed_count; at++) {
        const Link *link = &run->links[run->freed[at]];
        if (link->head < link->tail) run->turn[turns++] = link->line[link->head].task;
    }
    run->freed_count = 0;
    for (int32_t at = 1; at < run->asking_count; at++) { /* few at once, and nearly in order */
        int32_t task = run->asking[at], place = at;
        for (; place > 0 && run->asking[place - 1] > task; place--) run->asking[place] = run->asking[place - 1];
        run->asking[place] = task;
    }
    for (int32_t at = 0; at < run->asking_count; at++)
        if (!arrive(run, run->asking[at])) run->turn[turns++] = run->asking[at];
    run->asking_count = 0;
    for (int32_t at = 0; at < turns; at++) take_turn(run, run->turn[at]);
}

/* Every task beside who waits for it: the needs of all tasks turned round, by counting. */
static void lay_tasks(Run *run, int64_t count, const int64_t *lane, const int64_t *duration, Ragged needs,
                      Ragged route) {
    int32_t *place = run->turn; /* not used before the loop */
    Task *tasks = run->tasks;
    for (int64_t at = 0; at < needs.starts[count]; at++) tasks[needs.values[at] + 1].first_waiter++;
    for (int64_t t = 0; t < count; t++) {
        tasks[t + 1].first_waiter += tasks[t].first_waiter;
        place[t] = tasks[t].first_waiter;
        tasks[t].duration = duration[t];
        tasks[t].lane = (int32_t)lane[t];
        tasks[t].missing = (int32_t)(needs.starts[t + 1] - needs.starts[t]);
        tasks[t + 1].first_medium = (int32_t)route.starts[t + 1];
    }
    for (int64_t t = 0; t < count; t++)
        for (int64_t at = needs.starts[t]; at < needs.starts[t + 1]; at++)
            run->waiter[place[needs.values[at]]++] = (int32_t)t;
}

/* Each link's queue is a part of one array, with room for all that ever cross it. */
static void lay_lines(Run *run, int64_t crossings, int64_t media, const int64_t *medium) {
    Waiting *line = run->lines;
    for (int64_t at = 0; at < crossings; at++) {
        run->medium[at] = (int32_t)medium[at];
        run->links[medium[at]].tail++;
    }
    for (int64_t m = 0; m < media; m++) {
        run->links[m].line = line;
        line += run->links[m].tail;
        run->links[m].tail = 0;
    }
}

static void lay_order(Run *run, int64_t lanes, Ragged order) {
    for (int64_t n = 0; n < lanes; n++) {
        run->next[n] = (int32_t)order.starts[n];
        run->order_end[n] = (int32_t)order.starts[n + 1];
    }
    for (int64_t at = 0; at < order.starts[lanes]; at++) run->order[at] = (int32_t)order.values[at];
}

static void *room(int64_t count, size_t each, bool *enough) {
    void *found = calloc((size_t)count + 1, each);
    *enough = *enough && found;
    return found;
}

/* Fills start and end, -1 where a task never came to it. Returns the last end, or -1 where there is no memory. */
int64_t play(int64_t tasks, int64_t lanes, int64_t media, const int64_t *lane, const int64_t *duration,
             const int64_t *need_starts, const int64_t *need_values, const int64_t *order_starts,
             const int64_t *order_values, const int64_t *route_starts, const int64_t *route_values, int64_t *start,
             int64_t *end) {
    Run run = {.start = start, .end = end};
    Ragged needs = {need_starts, need_values}, order = {order_starts, order_values};
    Ragged route = {route_starts, route_values};
    int64_t last = -1, crossings = route_starts[tasks];
    bool enough = true;
    run.tasks = room(tasks, sizeof *run.tasks, &enough);
    run.waiter = room(need_starts[tasks], sizeof *run.waiter, &enough);
    run.medium = room(crossings, sizeof *run.medium, &enough);
    run.order = room(tasks, sizeof *run.order, &enough);
    run.next = room(lanes, sizeof *run.next, &enough);
    run.order_end = room(lanes, sizeof *run.order_end, &enough);
    run.busy = room(lanes, sizeof *run.busy, &enough);
    run.links = room(media, sizeof *run.links, &enough);
    run.lines = room(crossings, sizeof *run.lines, &enough);
    run.heap = room(tasks, sizeof *run.heap, &enough);
    run.finished = room(tasks, sizeof *run.finished, &enough);
    run.asking = room(tasks, sizeof *run.asking, &enough);
    run.turn = room(tasks + crossings, sizeof *run.turn, &enough);
    run.freed = room(crossings, sizeof *run.freed, &enough);
    if (enough) {
        lay_tasks(&run, tasks, lane, duration, needs, route);
        lay_lines(&run, crossings, media, route_values);
        lay_order(&run, lanes, order);
        for (int64_t t = 0; t < tasks; t++) {
            start[t] = end[t] = -1;
            if (!run.tasks[t].missing && lane[t] < 0) run.asking[run.asking_count++] = (int32_t)t;
        }
        for (int32_t n = 0; n < lanes; n++) begin_on(&run, n);
        for (;;) {
            settle(&run);
            if (run.asking_count || run.freed_count) grant(&run);
            if (!run.heap_size) break;
            run.now = run.heap[0].time;
        }
        last = run.now;
    }
    free(run.tasks), free(run.waiter), free(run.medium), free(run.order), free(run.next), free(run.order_end);
    free(run.busy), free(run.links), free(run.lines), free(run.heap), free(run.finished), free(run.asking);
    free(run.turn), free(run.freed);
    return last;
}
