PRAGMA application_id = 1346981957;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL
);
INSERT INTO "experiments" VALUES(1,'old','c7dfdb533d2cf52bcded064d431bbaf2c4d74f98aa5cd0a74f39b37eb598d35d','format = "pipesim.sweep"
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
','["nodes", "rate", "planner", "microbatches"]','["iteration_time_s", "plan_replicas", "fits_memory"]',1.79508367489896559715e+09);
CREATE TABLE points (
    experiment INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, "nodes", "rate", "planner", "microbatches", PRIMARY KEY (experiment, number)
) WITHOUT ROWID;
INSERT INTO "points" VALUES(1,0,X'8086644FD4B93A4612F46C0575784DA5',1,1,'uniform',2);
INSERT INTO "points" VALUES(1,1,X'1E779017DA8D423CD54E3BCB744DA5F6',1,1,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,6,X'D2048CBFCDDA07462E7AD05A87D589DB',2,1,'uniform',2);
INSERT INTO "points" VALUES(1,7,X'1D2AE3BD2ED8371452F2363B656709B5',2,1,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,8,X'7173FF28AB2B5982C8878BF2CADBC753',2,10,'uniform',2);
INSERT INTO "points" VALUES(1,9,X'9BB3FCA542A9F7059113F76AE083122B',2,10,'balanced','{2 * nodes}');
INSERT INTO "points" VALUES(1,10,X'F91874A412D26104CBA860E758500A5F',2,100,'uniform',2);
INSERT INTO "points" VALUES(1,11,X'165BE35D6F0F6A3F869A4DE947013B06',2,100,'balanced','{2 * nodes}');
CREATE TABLE results (
    key BLOB PRIMARY KEY, measured TEXT NOT NULL, error TEXT, refused INTEGER NOT NULL,
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
, "iteration_time_s", "plan_replicas", "fits_memory") WITHOUT ROWID;
INSERT INTO "results" VALUES(X'165BE35D6F0F6A3F869A4DE947013B06','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.31832999998005107045e-03,1795083675.35857,0.042738,'1x4',1);
INSERT INTO "results" VALUES(X'1D2AE3BD2ED8371452F2363B656709B5','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.51904400101921055465e-03,1.79508367534402966505e+09,0.152584668,'1x4',1);
INSERT INTO "results" VALUES(X'1E779017DA8D423CD54E3BCB744DA5F6','fits_memory iteration_time_s plan_replicas',NULL,0,'event',1.71889899866073392331e-03,1.79508367533405303962e+09,0.030164,'1x2',1);
INSERT INTO "results" VALUES(X'7173FF28AB2B5982C8878BF2CADBC753','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.63259199891763273626e-03,1.79508367535329747205e+09,0.030618,'1x4',1);
INSERT INTO "results" VALUES(X'8086644FD4B93A4612F46C0575784DA5','fits_memory iteration_time_s plan_replicas',NULL,0,'event',4.32387533001019619405e-01,1.79508367533420348165e+09,0.030164,'1x2',1);
INSERT INTO "results" VALUES(X'9BB3FCA542A9F7059113F76AE083122B','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.31443300071987323462e-03,1.79508367535335588453e+09,0.045618,'1x4',1);
INSERT INTO "results" VALUES(X'D2048CBFCDDA07462E7AD05A87D589DB','fits_memory iteration_time_s plan_replicas',NULL,0,'event',6.97731199943518731743e-03,1.79508367534396815305e+09,0.084418,'1x4',1);
INSERT INTO "results" VALUES(X'F91874A412D26104CBA860E758500A5F','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.59741000081703532487e-03,1.79508367535850763322e+09,0.027738,'1x4',1);
CREATE INDEX points_by_key ON points (key);
CREATE VIEW rows AS SELECT p.number, p."nodes", p."rate", p."planner", p."microbatches", r."iteration_time_s", r."plan_replicas", r."fits_memory", r.error, r.engine, r.seconds, r.finished FROM main.points p LEFT JOIN main.results r ON r.key = p.key WHERE p.experiment = 1 ORDER BY p.number;
COMMIT;
