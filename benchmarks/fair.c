/* The loop of the compiled engine in C, for links that transfers share with max-min fair rates: what a machine can do.

   at each time:  all that happens now is processed: delays that are over, flows that end, tasks that begin;
                  then the flows that common links join to those that began or ended all get their rates again, by
                  progressive filling; those whose rate differs get another end; then time advances

   A flow that gets another end is in the heap once for each of its ends; all but the last are skipped. */

#include <math.h>

#include "loop.h"

typedef struct {
    double left, rate; /* bytes to go at `since`; bytes per ns */
    int64_t since, ends;
    double new_rate; /* -1 while flows are filled and it has none yet */
    bool is_under_way, is_found;
} Flow;

typedef struct {
    double capacity, left, level;
    int32_t first, sharing, taken; /* the first of its flows, as a place in `medium`; -1 if there is none */
    bool is_touched, is_found;
} Link;

/* What holds flows back: link `holder`, or the limit of flow ~holder. */
typedef struct {
    double rate;
    int32_t holder;
} Offer;

typedef struct {
    Loop loop;
    Flow *flows;
    Link *links;
    const double *limit;
    int32_t *task, *following, *previous; /* of each place in `medium`: its flow, and those beside it on the link */
    int32_t *touched, *found_links, *found, *fixed;
    int32_t touched_count, links_count, count;
    Offer *offers;
    int32_t offers_size;
    int64_t heap_room;
} Run;

static double most(double one, double other) { return one > other ? one : other; }

/* --- flows on links --- */

static void touch(Run *run, int32_t m) {
    if (run->links[m].is_touched) return;
    run->links[m].is_touched = true;
    run->touched[run->touched_count++] = m;
}

static void join(Run *run, int32_t task) {
    const Loop *loop = &run->loop;
    run->flows[task].since = loop->now;
    run->flows[task].is_under_way = true;
    for (int32_t at = loop->tasks[task].first_medium; at < loop->tasks[task + 1].first_medium; at++) {
        Link *link = &run->links[loop->medium[at]];
        run->following[at] = link->first, run->previous[at] = -1;
        if (link->first >= 0) run->previous[link->first] = at;
        link->first = at;
        touch(run, loop->medium[at]);
    }
}

static void leave(Run *run, int32_t task) {
    const Loop *loop = &run->loop;
    run->flows[task].is_under_way = false;
    for (int32_t at = loop->tasks[task].first_medium; at < loop->tasks[task + 1].first_medium; at++) {
        int32_t before = run->previous[at], after = run->following[at];
        *(before >= 0 ? &run->following[before] : &run->links[loop->medium[at]].first) = after;
        if (after >= 0) run->previous[after] = before;
        touch(run, loop->medium[at]);
    }
}

/* The flows joined to touched links through common links, and those links. */
static void find_joined(Run *run) {
    const Loop *loop = &run->loop;
    run->links_count = run->count = 0;
    for (int32_t at = 0; at < run->touched_count; at++) {
        run->links[run->touched[at]].is_touched = false;
        run->links[run->touched[at]].is_found = true;
        run->found_links[run->links_count++] = run->touched[at];
    }
    run->touched_count = 0;
    for (int32_t n = 0; n < run->links_count; n++) {
        for (int32_t j = run->links[run->found_links[n]].first; j >= 0; j = run->following[j]) {
            int32_t t = run->task[j];
            if (run->flows[t].is_found) continue;
            run->flows[t].is_found = true;
            run->found[run->count++] = t;
            for (int32_t k = loop->tasks[t].first_medium; k < loop->tasks[t + 1].first_medium; k++) {
                Link *link = &run->links[loop->medium[k]];
                if (!link->is_found) run->found_links[run->links_count++] = loop->medium[k];
                link->is_found = true;
            }
        }
    }
}

/* --- progressive filling --- */

static void sift(Run *run, int32_t at) {
    Offer *offers = run->offers, one = offers[at];
    for (int32_t below; (below = 2 * at + 1) < run->offers_size; at = below) {
        if (below + 1 < run->offers_size && offers[below + 1].rate < offers[below].rate) below++;
        if (offers[below].rate >= one.rate) break;
        offers[at] = offers[below];
    }
    offers[at] = one;
}

static void offer(Run *run, double rate, int32_t holder) {
    run->offers[run->offers_size++] = (Offer){rate, holder};
}

/* Every link offers equal shares; rates are none yet. */
static void begin_filling(Run *run) {
    const Loop *loop = &run->loop;
    run->offers_size = 0;
    for (int32_t n = 0; n < run->count; n++) {
        int32_t t = run->found[n];
        run->flows[t].new_rate = -1;
        run->flows[t].is_found = false;
        if (run->limit[t] < INFINITY) offer(run, run->limit[t], ~t);
        for (int32_t k = loop->tasks[t].first_medium; k < loop->tasks[t + 1].first_medium; k++)
            run->links[loop->medium[k]].sharing++;
    }
    for (int32_t n = 0; n < run->links_count; n++) {
        Link *link = &run->links[run->found_links[n]];
        link->is_found = false;
        link->left = link->capacity;
        link->level = link->capacity / link->sharing;
        if (link->sharing) offer(run, link->level, run->found_links[n]);
    }
    for (int32_t at = run->offers_size / 2; at-- > 0;) sift(run, at);
}

static int32_t fix_open(Run *run, int32_t task, double rate, int32_t count) {
    if (run->flows[task].new_rate >= 0) return count;
    run->flows[task].new_rate = rate;
    run->fixed[count] = task;
    return count + 1;
}

/* The flows that are held back by the least that is offered, to the last bit: how many, and in `fixed`. */
static int32_t fix(Run *run, double *share) {
    int32_t count = 0;
    for (*share = INFINITY; run->offers_size && run->offers[0].rate <= *share; sift(run, 0)) {
        Offer first = run->offers[0];
        const Link *link = first.holder >= 0 ? &run->links[first.holder] : NULL;
        if (link && link->sharing && link->level != first.rate) {
            run->offers[0].rate = link->level; /* it offers more since others were fixed */
            continue;
        }
        run->offers[0] = run->offers[--run->offers_size];
        if (!link) count = fix_open(run, ~first.holder, first.rate, count);
        for (int32_t j = link && link->sharing ? link->first : -1; j >= 0; j = run->following[j])
            count = fix_open(run, run->task[j], first.rate, count);
        if (count) *share = first.rate;
    }
    return count;
}

/* What links offer when the fixed flows have their share of it: reduced once, by the share of all of them. */
static void take(Run *run, int32_t count, double share) {
    const Loop *loop = &run->loop;
    for (int32_t n = 0; n < count; n++) {
        const Task *task = &loop->tasks[run->fixed[n]];
        for (int32_t k = task[0].first_medium; k < task[1].first_medium; k++) run->links[loop->medium[k]].taken++;
    }
    for (int32_t n = 0; n < count; n++) {
        const Task *task = &loop->tasks[run->fixed[n]];
        for (int32_t k = task[0].first_medium; k < task[1].first_medium; k++) {
            Link *link = &run->links[loop->medium[k]];
            if (!link->taken) continue;
            link->left = most(0, link->left - share * link->taken);
            link->sharing -= link->taken;
            link->taken = 0;
            if (link->sharing) link->level = most(link->level, link->left / link->sharing);
        }
    }
}

static void fill(Run *run) {
    begin_filling(run);
    for (int32_t open = run->count; open;) {
        double share;
        int32_t count = fix(run, &share);
        take(run, count, share);
        open -= count;
    }
}

/* --- the loop --- */

/* Room for the ends of the flows that were found, beside one event of each task; whether there is memory for it. */
static bool has_room(Run *run, int64_t tasks) {
    int64_t needed = run->loop.heap_size + run->count + tasks;
    if (needed <= run->heap_room) return true;
    Event *more = realloc(run->loop.heap, (size_t)(2 * needed) * sizeof *more);
    if (!more) return false;
    run->loop.heap = more, run->heap_room = 2 * needed;
    return true;
}

/* From now on a flow has its new rate. */
static void set_rate(Loop *loop, Flow *flow, int32_t task) {
    flow->left = most(0, flow->left - flow->rate * (double)(loop->now - flow->since));
    flow->since = loop->now, flow->rate = flow->new_rate;
    flow->ends = loop->now + (int64_t)ceil(flow->left / flow->rate - 1e-6);
    push(loop, flow->ends, task);
}

/* A task ends, the delay of a transfer is over, or a flow ends, unless its rate has changed since. */
static void happen(Run *run, int32_t task) {
    Loop *loop = &run->loop;
    const Task *one = &loop->tasks[task];
    const Flow *flow = &run->flows[task];
    if (one->lane >= 0) {
        finish(loop, task);
    } else if (flow->is_under_way) {
        if (flow->ends != loop->now) return;
        leave(run, task);
        finish(loop, task);
    } else if (loop->end[task] < 0) {
        if (flow->left > 0 && one[0].first_medium < one[1].first_medium)
            join(run, task);
        else
            finish(loop, task);
    }
}

/* Transfers that have become ready: their delays begin. */
static void request(Loop *loop, const int64_t *delay) {
    while (loop->asking_count) {
        int32_t task = loop->asking[--loop->asking_count];
        loop->start[task] = loop->now;
        push(loop, loop->now + delay[task], task);
    }
}

static bool go(Run *run, const Program *program) {
    Loop *loop = &run->loop;
    for (;;) {
        request(loop, program->delay);
        while (happens_now(loop)) {
            happen(run, pop(loop));
            request(loop, program->delay);
        }
        if (run->touched_count) {
            find_joined(run);
            if (!has_room(run, program->tasks)) return false;
            fill(run);
            for (int32_t n = 0; n < run->count; n++) {
                Flow *flow = &run->flows[run->found[n]];
                if (flow->new_rate != flow->rate) set_rate(loop, flow, run->found[n]);
            }
        }
        if (!loop->heap_size) return true;
        loop->now = loop->heap[0].time;
    }
}

static void lay_flows(Run *run, const Program *program) {
    for (int32_t t = 0; t < program->tasks; t++) {
        run->flows[t].left = program->used[t];
        for (int32_t at = run->loop.tasks[t].first_medium; at < run->loop.tasks[t + 1].first_medium; at++)
            run->task[at] = t;
    }
    for (int64_t m = 0; m < program->media; m++) {
        run->links[m].capacity = program->capacity[m];
        run->links[m].first = -1;
    }
}

/* Fills start and end; returns whether there is enough memory. */
bool play(const Program *program) {
    bool enough = true;
    int64_t tasks = program->tasks, media = program->media, crossings = program->route.starts[tasks];
    Run run = {.loop = opened(program, 2 * tasks, &enough), .limit = program->limit, .heap_room = 2 * tasks};
    run.flows = room(tasks, sizeof *run.flows, &enough);
    run.links = room(media, sizeof *run.links, &enough);
    run.task = room(crossings, sizeof *run.task, &enough);
    run.following = room(crossings, sizeof *run.following, &enough);
    run.previous = room(crossings, sizeof *run.previous, &enough);
    run.touched = room(media, sizeof *run.touched, &enough);
    run.found_links = room(media, sizeof *run.found_links, &enough);
    run.found = room(tasks, sizeof *run.found, &enough);
    run.fixed = room(tasks, sizeof *run.fixed, &enough);
    run.offers = room(media + tasks, sizeof *run.offers, &enough);
    if (enough) {
        lay_tasks(&run.loop, program);
        lay_order(&run.loop, program);
        lay_flows(&run, program);
        begin_first(&run.loop, program);
        enough = go(&run, program);
    }
    closed(&run.loop);
    free(run.flows), free(run.links), free(run.task), free(run.following), free(run.previous), free(run.touched);
    free(run.found_links), free(run.found), free(run.fixed), free(run.offers);
    return enough;
}
