PRAGMA application_id = 1346981957;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL, "points digest" BLOB, "row digest" BLOB
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
','["nodes", "rate", "planner", "microbatches"]','["iteration_time_s", "plan_replicas", "fits_memory"]',1.79508367631630682938e+09,X'BC3150A05D3D878E661A9049D301D676',X'A844913D5EDCBE7E0F3E336DB4C31EEC');
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
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL, "row digest" BLOB
, "iteration_time_s", "plan_replicas", "fits_memory") WITHOUT ROWID;
INSERT INTO "results" VALUES(X'165BE35D6F0F6A3F869A4DE947013B06','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.301397998962784186e-03,1.79508367673153924944e+09,X'F901DCD591FDA97727DCD45AB5B8E51D',0.042738,'1x4',1);
INSERT INTO "results" VALUES(X'1D2AE3BD2ED8371452F2363B656709B5','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.56976899981964379549e-03,1.79508367672087931635e+09,X'0255160C8AB3D9E0624EAA8656538020',0.152584668,'1x4',1);
INSERT INTO "results" VALUES(X'1E779017DA8D423CD54E3BCB744DA5F6','fits_memory iteration_time_s plan_replicas',NULL,0,'event',1.60847300139721482992e-03,1.79508367671492981903e+09,X'F5AFBFE8A4387A2B037FD4B57BAB49E1',0.030164,'1x2',1);
INSERT INTO "results" VALUES(X'7173FF28AB2B5982C8878BF2CADBC753','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.55107699922518804669e-03,1.7950836767259924412e+09,X'28E56B1E8B08BA970FD8694ED4A3A605',0.030618,'1x4',1);
INSERT INTO "results" VALUES(X'8086644FD4B93A4612F46C0575784DA5','fits_memory iteration_time_s plan_replicas',NULL,0,'event',3.95474281000133487395e-01,1.79508367671468734745e+09,X'0DD8542D83BDEFE55A6D5044FFDC02FA',0.030164,'1x2',1);
INSERT INTO "results" VALUES(X'9BB3FCA542A9F7059113F76AE083122B','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.16397599979245569556e-03,1.79508367672612500183e+09,X'4AEE95A277C3EBEB805EF7E524EAC678',0.045618,'1x4',1);
INSERT INTO "results" VALUES(X'D2048CBFCDDA07462E7AD05A87D589DB','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.87670400030037853866e-03,1.79508367672074580197e+09,X'7065CED64A4C36E137638891C3B25BA5',0.084418,'1x4',1);
INSERT INTO "results" VALUES(X'F91874A412D26104CBA860E758500A5F','fits_memory iteration_time_s plan_replicas',NULL,0,'event',2.63727800120250321924e-03,1.79508367673140120505e+09,X'56926D891B98326852A876EDE17D2699',0.027738,'1x4',1);
CREATE INDEX points_by_key ON points (key);
CREATE VIEW rows AS SELECT p.number AS number, p."nodes" AS "nodes", p."rate" AS "rate", p."planner" AS "planner", p."microbatches" AS "microbatches", r."iteration_time_s" AS "iteration_time_s", r."plan_replicas" AS "plan_replicas", r."fits_memory" AS "fits_memory", r.error AS error, r.engine AS engine, r.seconds AS seconds, CASE WHEN instr(' ' || r.measured || ' ', ' iteration_time_s ') AND instr(' ' || r.measured || ' ', ' plan_replicas ') AND instr(' ' || r.measured || ' ', ' fits_memory ') THEN r.finished END AS finished FROM main.points p LEFT JOIN main.results r ON r.key = p.key WHERE p.experiment = 1 ORDER BY p.number;
COMMIT;
