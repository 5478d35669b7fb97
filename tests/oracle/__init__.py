"""A second simulator of what pipesim simulates, from the values that a user gives to when everything happens.

It shares no code with pipesim's lowering, routes, sharing or engines, computes in fractions, and goes from instant to
instant where the engines go from event to event. These are its rules; the modules hold nothing else.

Names      A task is known by kind, stage, microbatch and device, or source and target: F forward, B whole backward,
           I and W its halves, O optimizer step, > activations, < gradients, A an edge of a ring that sums,
           G of one that gathers.
Numbers    Seconds and bytes are the exact values of the doubles in the input. Whole nanoseconds arise where a duration,
           a delay or the start or end of a window is rounded to the nearest, ties to even, and where a completion is
           rounded up; there a millionth of a nanosecond is forgiven. A sum of layers, all messages of a ring edge, all
           links of a route are rounded once. Doubles resolve that millionth below 10 s; of transfers that last longer
           and end on a whole nanosecond, about one in a hundred ends a nanosecond later in pipesim.

Costs      Every phase is summarised by itself over its samples. Of a row with whole backwards only, `weight_share` is
           W and the rest I; of one with halves only, their sum is B; the first B is B, recomputation is F, where not
           recorded. A share of x samples between two recorded sizes is on the straight line between them; outside it
           is x / size of the nearest. With `linear` scaling that holds for the whole microbatch, and a share takes its
           part of it. Bytes come from the recorded size nearest (of two the smaller), in proportion; parameters as is.
           A cut carries, once each, all outputs from before it that a layer behind it reads.
           The first B of a stage on a device in its order takes `backward_first`; W and I know no first.
           `selective` recomputes a layer if stash - min(stash, bytes read) is more per second than over all layers, at
           a whole microbatch on the kind of the device of rank 0. Recomputation is added to B and I, not to W.
Pairs      F and B (or I) as one run back to back on the device. Together they take the rounded sum x `pair_factor`, or
           the rounded sum less `pair_overlap` x the shorter; the first takes its part of the sum, rounded, the second
           the rest. The first waits for all that either needs; what either makes is there when the second has ended.
Ranks      Row r of a schedule is the device whose first place (stage, replica) is r-th; with whole microbatches the
           first place as replica 0 counts, for a device that has one.
Needs      B and I need their F, W its I, all on the same device and stage; F the F of the stage before, B and I the B
           or I of the stage after, of the same microbatch: from every replica (split), or from replica m mod k (whole).
           On one device nothing is sent; else a message of 1 / (k k') of the cut's bytes goes from each to each.

Routes     The fewest hops, through devices too; of those the widest bottleneck. Where several next vertices are equally
           wide, in the order of vertices (devices, then others as links name them), the one of number t mod n (an odd
           number of hops from the target) or (t // n) mod n (an even number), t the target's position.
           A full-duplex link has two media, a half-duplex one one; links on one shared medium occupy it once.
Messages   Delay is the sum over the links, transmission the most of any link: bytes / bandwidth, or what its table says
           less what it says of 0 bytes. Tables are straight between points and beyond the ends, where nothing is faster
           than the fastest point, of whose seconds 5 % at least count for its bytes, or than the bandwidth.
           On a route with a table a transfer never goes faster than bytes / transmission. One that is faster alone than
           the least bandwidth of its route is a burst: it uses all of that bandwidth for as long as it takes alone.
Posting    eager: ready when its tensor is. rendezvous: and when the receiver has ended the action before the one that
           reads it (or cell, of pairs). blocking: and what the sender does next, an optimizer step included, waits for
           the message. The order of messages of one action does not matter; there are no receive buffers.
           paired: as blocking, where F and the B or I next on a device (if that is so more than once there) are one:
           what both make goes after the second, what both read comes before the first. sequential: as blocking, and of
           the messages between two actions of a device each waits for the one before, in the order of how many actions
           must come before their tensor is made, gradients before activations, sends before receives, then as their
           makers and readers stand in the schedule; under `channel` microbatch, gradients first, boundary.
Rings      A stage on k > 1 devices with parameters: when the last B or W of all its replicas that see a microbatch has
           ended, k messages of each k-th part, 2 (k - 1) times, go along the ring as one task per edge, all at once.
           The ring visits node after node, each where its first replica stands; with `rings = all` and as many in each
           of several nodes, as many rings, each begun at another device of the nodes, have an equal part each. Under
           `channel` it is one task over no link, as long as that of the worst pair of the stage's devices.
           Gradients are `gradient_bytes` x the parameters. With `tied_all_reduce` a last stage with a tied head, on
           other devices than the first, has a copy of the embedding's parameters beside its own.
Shards     Of s neighbours (all, or `sharding_size`); 1 is no sharding. zero1: k - 1 messages scatter the sum in each
           group, then 2 (k/s - 1) sum each shard over the groups; after the step G, s - 1 messages, gathers parameters.
           zero2: the same after the j-th B or W of all replicas, for every j. zero3: so, but G before every F, and
           before every B or I, ready when all that is before the cell before theirs has ended; none after the step.
Overlap    Where a stage has more than one bucket (80 MB): a pause as long as the bucket's part of the shortest last B
           or W, from when all of these are ready and the action before each has ended; then all but that part is
           summed, then that part, after all of the former and the last B or W. G after a step is at the beginning
           instead: a bucket, for which the first F wait, then the rest, for which the first B or I do.
Tied       If the last layer uses the embedding's matrix and first and last stage are on different devices: their i-th
           devices sum it, when both stages' sums are done; steps of both wait for it.
Norm       A pause of 2 ceil(log2 of the devices) delays from the first to the last device, after all sums; all steps
           and gathers wait for it.
Optimizer  If it takes time at all: one step per stage and device after everything else on it, later stages first, when
           the stage's ring has ended, or where there is none, the last backwards of all its replicas. It takes 1/s of
           its time where the optimizer is in s shards.

none       A transfer takes its time alone.
fifo       A transfer asks for all media of its route when ready and holds them, delay included, from start to end. It
           starts when no medium is taken and on none of them another stands before it. Order: time of asking, then
           microbatch, then gradients before activations, then sender and receiver as (stage, replica); rings last, by
           stage and edge.
channel    The media are the boundaries of stages. All messages of a microbatch and a direction are one, as long as
           the slowest, asked for when all parts are ready, needed by whoever needs a part. Else as fifo.
fair       After its delay a transfer flows: all rates rise together until a limit or a medium that is full holds them.
           A transfer without bytes is over with its delay.
Instants   All that ends at an instant ends, and what then can begin on devices or ask for links does, including what
           takes no time; only then are links granted, or rates set, once for all. What that ends at once is another
           round at the same instant, in which whoever asks then has asked at the same time.
Speeds     A slow device goes at 1 / factor, a degraded medium at its fraction, others leave 1 - share; all windows that
           are open multiply, from start to just before end. Work in progress changes its pace. Delays do not stretch.
           Under none and fifo a transfer's whole nanoseconds after the delay stretch in the ratio of the rates that it
           would have alone, and are rounded up a second time. Under channel there is nothing to degrade.
Refused    No route for a message that is sent; no times for a kind; an unknown device or link in a scenario.
"""
