/* What both loops in C have in common: a program's columns, tasks and their lanes, and what happens next.

   heap        of (time, task): what is over next
   asking      transfers that have become ready now

   Columns are those of a Program: row t of a ragged column is values[starts[t]] .. values[starts[t + 1] - 1]. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    const int64_t *starts, *values;
} Ragged;

typedef struct {
    int64_t tasks, lanes, media;
    const int64_t *lane, *duration, *delay;
    const double *used, *limit, *capacity; /* of transfers and of links, in bytes and in bytes per ns */
    Ragged needs, order, route;
    int64_t *start, *end; /* to be filled: -1 where a task never came to it */
} Program;

typedef struct {
    int64_t time;
    int32_t task;
} Event;

/* What the loop reads of a task, side by side, so that it is fetched at once. */
typedef struct {
    int64_t duration;
    int32_t lane, missing, first_waiter, first_medium;
} Task;

typedef struct {
    Task *tasks; /* and one more, where the last one's rows end */
    int32_t *waiter, *medium, *order;
    int32_t *next, *order_end; /* of each lane, in `order` */
    bool *busy;
    int64_t *start, *end;
    Event *heap;
    int32_t heap_size;
    int32_t *asking;
    int32_t asking_count;
    int64_t now;
} Loop;

static void push(Loop *loop, int64_t time, int32_t task) {
    Event *heap = loop->heap;
    int32_t at = loop->heap_size++;
    while (at > 0) {
        int32_t above = (at - 1) / 2;
        if (heap[above].time <= time) break;
        heap[at] = heap[above];
        at = above;
    }
    heap[at] = (Event){time, task};
}

static int32_t pop(Loop *loop) {
    Event *heap = loop->heap, last = heap[--loop->heap_size];
    int32_t first = heap[0].task, size = loop->heap_size, at = 0;
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

static bool happens_now(const Loop *loop) { return loop->heap_size && loop->heap[0].time <= loop->now; }

static void begin(Loop *loop, int32_t task) {
    loop->start[task] = loop->now;
    push(loop, loop->now + loop->tasks[task].duration, task);
}

/* The next task of a lane begins if the lane is free and the task misses nothing. */
static void begin_on(Loop *loop, int32_t lane) {
    if (loop->busy[lane] || loop->next[lane] == loop->order_end[lane]) return;
    int32_t task = loop->order[loop->next[lane]];
    if (loop->tasks[task].missing) return;
    loop->busy[lane] = true;
    begin(loop, task);
}

static void finish(Loop *loop, int32_t task) {
    int32_t lane = loop->tasks[task].lane;
    loop->end[task] = loop->now;
    if (lane >= 0) {
        loop->busy[lane] = false;
        loop->next[lane]++;
        begin_on(loop, lane);
    }
    for (int32_t at = loop->tasks[task].first_waiter; at < loop->tasks[task + 1].first_waiter; at++) {
        Task *next = &loop->tasks[loop->waiter[at]];
        if (--next->missing) continue;
        if (next->lane < 0)
            loop->asking[loop->asking_count++] = loop->waiter[at];
        else
            begin_on(loop, next->lane);
    }
}

/* Every task beside who waits for it: the needs of all tasks turned round, by counting. */
static void lay_tasks(Loop *loop, const Program *program) {
    int32_t *place = loop->asking; /* not used before the loop */
    Ragged needs = program->needs;
    Task *tasks = loop->tasks;
    for (int64_t at = 0; at < needs.starts[program->tasks]; at++) tasks[needs.values[at] + 1].first_waiter++;
    for (int64_t t = 0; t < program->tasks; t++) {
        tasks[t + 1].first_waiter += tasks[t].first_waiter;
        place[t] = tasks[t].first_waiter;
        tasks[t].duration = program->duration[t];
        tasks[t].lane = (int32_t)program->lane[t];
        tasks[t].missing = (int32_t)(needs.starts[t + 1] - needs.starts[t]);
        tasks[t + 1].first_medium = (int32_t)program->route.starts[t + 1];
    }
    for (int64_t t = 0; t < program->tasks; t++)
        for (int64_t at = needs.starts[t]; at < needs.starts[t + 1]; at++)
            loop->waiter[place[needs.values[at]]++] = (int32_t)t;
    for (int64_t at = 0; at < program->route.starts[program->tasks]; at++)
        loop->medium[at] = (int32_t)program->route.values[at];
}

static void lay_order(Loop *loop, const Program *program) {
    Ragged order = program->order;
    for (int64_t n = 0; n < program->lanes; n++) {
        loop->next[n] = (int32_t)order.starts[n];
        loop->order_end[n] = (int32_t)order.starts[n + 1];
    }
    for (int64_t at = 0; at < order.starts[program->lanes]; at++) loop->order[at] = (int32_t)order.values[at];
}

/* What needs nothing is ready, or begins. */
static void begin_first(Loop *loop, const Program *program) {
    for (int32_t t = 0; t < program->tasks; t++) {
        loop->start[t] = loop->end[t] = -1;
        if (!loop->tasks[t].missing && loop->tasks[t].lane < 0) loop->asking[loop->asking_count++] = t;
    }
    for (int32_t n = 0; n < program->lanes; n++) begin_on(loop, n);
}

static void *room(int64_t count, size_t each, bool *enough) {
    void *found = calloc((size_t)count + 1, each);
    *enough = *enough && found;
    return found;
}

/* Room for everything, and for so many events. */
static Loop opened(const Program *program, int64_t events, bool *enough) {
    int64_t tasks = program->tasks, lanes = program->lanes;
    return (Loop){
        .tasks = room(tasks, sizeof(Task), enough),
        .waiter = room(program->needs.starts[tasks], sizeof(int32_t), enough),
        .medium = room(program->route.starts[tasks], sizeof(int32_t), enough),
        .order = room(tasks, sizeof(int32_t), enough),
        .next = room(lanes, sizeof(int32_t), enough),
        .order_end = room(lanes, sizeof(int32_t), enough),
        .busy = room(lanes, sizeof(bool), enough),
        .heap = room(events, sizeof(Event), enough),
        .asking = room(tasks, sizeof(int32_t), enough),
        .start = program->start,
        .end = program->end,
    };
}

static void closed(Loop *loop) {
    free(loop->tasks), free(loop->waiter), free(loop->medium), free(loop->order), free(loop->next);
    free(loop->order_end), free(loop->busy), free(loop->heap), free(loop->asking);
}
