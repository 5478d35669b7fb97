PRAGMA application_id = 1346981957;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL
);
INSERT INTO "experiments" VALUES(1,'old','38109f1623f5ccbeccdc83a293309351e9a7c30a1c83072ae91528bace8998d8','format = "pipesim.sweep"
version = 1
name = "old"

[simulate]
trace = "trace"
cluster = ''servers({nodes}, 2, intra="25GB/s", inter="{rate} Gb/s")''
scheduler = "gpipe"

[grid]
nodes = [1, 2]
rate = { from = 1, to = 100, factor = 10 }
where = "nodes > 1 or rate == 1"

[[grid.zip]]
planner = ["uniform", "balanced"]
microbatches = [2, "{2 * nodes}"]

[output]
metrics = ["iteration_time_s", "plan_replicas", "fits_memory"]

[plot]
time = { kind = "line", x = "rate", y = "iteration_time_s", series = "planner", log = "x" }
','["nodes", "rate", "planner", "microbatches"]','["iteration_time_s", "plan_replicas", "fits_memory"]',1.79508367395952367785e+09);
CREATE TABLE points (
    experiment INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, "nodes", "rate", "planner", "microbatches", PRIMARY KEY (experiment, number)
) WITHOUT ROWID;
INSERT INTO "points" VALUES(1,0,X'DF2B00E445F9D449D07B73A711E3EEEA',1,1,'uniform',2);
INSERT INTO "points" VALUES(1,1,X'ACE76D2AB2BC76D8E2D9C6C4BF82777B',1,1,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,6,X'3F22575842FF4223124D98E9EA0A02D6',2,1,'uniform',2);
INSERT INTO "points" VALUES(1,7,X'949AC93985D5748CAC53A67C4B62EA09',2,1,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,8,X'D0C1F7709F2C0A9289F921AD1C8D5336',2,10,'uniform',2);
INSERT INTO "points" VALUES(1,9,X'71A9E9F473A3CEDF4D8D6BC9538C7FAA',2,10,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,10,X'D35BCA3E385955F13BB918500220EDFC',2,100,'uniform',2);
INSERT INTO "points" VALUES(1,11,X'479353EE45FAFF2D93124CAFAB5F4C08',2,100,'balanced','{2 * nodes}');
CREATE TABLE results (
    key BLOB PRIMARY KEY, measured TEXT NOT NULL, error TEXT, refused INTEGER NOT NULL,
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
, "iteration_time_s", "plan_replicas", "fits_memory") WITHOUT ROWID;
INSERT INTO "results" VALUES(X'3F22575842FF4223124D98E9EA0A02D6','fits_memory iteration_time_s plan_replicas',NULL,0,'event',6.68382000003475695848e-03,1.79508367398478031152e+09,0.084418,'1x4',1);
INSERT INTO "results" VALUES(X'479353EE45FAFF2D93124CAFAB5F4C08','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.29370600027323234826e-03,1.79508367398730397219e+09,0.042738,'1x4',1);
INSERT INTO "results" VALUES(X'71A9E9F473A3CEDF4D8D6BC9538C7FAA','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.21032000081322621554e-03,1.79508367398485088346e+09,0.045618,'1x4',1);
INSERT INTO "results" VALUES(X'949AC93985D5748CAC53A67C4B62EA09','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.40691799990599974989e-03,1.79508367398478031152e+09,0.152584668,'1x4',1);
INSERT INTO "results" VALUES(X'ACE76D2AB2BC76D8E2D9C6C4BF82777B','fits_memory iteration_time_s plan_replicas',NULL,0,'event',1.63430099928518757224e-03,1.79508367396445918081e+09,0.030164,'1x2',1);
INSERT INTO "results" VALUES(X'D0C1F7709F2C0A9289F921AD1C8D5336','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.29056799980753567069e-03,1.79508367398478031152e+09,0.030618,'1x4',1);
INSERT INTO "results" VALUES(X'D35BCA3E385955F13BB918500220EDFC','fits_memory iteration_time_s plan_replicas',NULL,0,'event',6.32257799952640198171e-03,1.79508367398485088346e+09,0.027738,'1x4',1);
INSERT INTO "results" VALUES(X'DF2B00E445F9D449D07B73A711E3EEEA','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.5173629983328282833e-03,1.79508367396435236933e+09,0.030164,'1x2',1);
CREATE INDEX points_by_key ON points (key);
CREATE VIEW rows AS SELECT p.number, p."nodes", p."rate", p."planner", p."microbatches", r."iteration_time_s", r."plan_replicas", r."fits_memory", r.error, r.engine, r.seconds, r.finished FROM main.points p LEFT JOIN main.results r ON r.key = p.key WHERE p.experiment = 1 ORDER BY p.number;
COMMIT;
