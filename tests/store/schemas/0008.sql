BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0008');
CREATE TABLE attempts (
	job_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	token VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	created FLOAT NOT NULL, 
	started FLOAT, 
	ended FLOAT, 
	exit_code INTEGER, 
	failure VARCHAR NOT NULL, 
	reason TEXT NOT NULL, 
	port INTEGER, 
	PRIMARY KEY (job_id, number), 
	FOREIGN KEY(job_id) REFERENCES jobs (job_id)
);
INSERT INTO "attempts" VALUES(2,1,'cafecafecafecafecafecafecafecafe','RUNNING',1001.0,NULL,NULL,NULL,'','',NULL);
INSERT INTO "attempts" VALUES(3,1,'cafecafecafecafecafecafecafecafe','ENDED',1001.0,NULL,NULL,NULL,'','',NULL);
CREATE TABLE audit (
	audit_id INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	who TEXT NOT NULL, 
	what TEXT NOT NULL, 
	job_id INTEGER, 
	node TEXT, 
	detail TEXT NOT NULL, uid INTEGER, origin TEXT DEFAULT '' NOT NULL, result TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (audit_id)
);
INSERT INTO "audit" VALUES(1,1000.0,'alice','submit',1,NULL,'',NULL,'','');
INSERT INTO "audit" VALUES(2,1000.0,'alice','submit',1,NULL,'train',1001,'socket','');
CREATE TABLE holds (
	hold_id INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	uuid TEXT NOT NULL, 
	job_id INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	released FLOAT, 
	PRIMARY KEY (hold_id), 
	FOREIGN KEY(job_id, attempt, rank) REFERENCES parts (job_id, attempt, rank)
);
INSERT INTO "holds" VALUES(1,'gpu01','GPU-0',2,1,0,NULL);
INSERT INTO "holds" VALUES(2,'gpu01','GPU-1',2,1,0,NULL);
INSERT INTO "holds" VALUES(3,'gpu01','GPU-2',3,1,0,1010.0);
CREATE TABLE jobs (
	job_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	request_id VARCHAR NOT NULL, 
	user TEXT NOT NULL, 
	uid INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	name TEXT NOT NULL, 
	partition TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	submit_time FLOAT NOT NULL, 
	reason TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	start_time FLOAT, 
	end_time FLOAT, 
	exit_code INTEGER, 
	attempt INTEGER NOT NULL, 
	stop TEXT NOT NULL, 
	not_before FLOAT NOT NULL, 
	failures INTEGER NOT NULL, 
	avoid TEXT NOT NULL, 
	held TEXT DEFAULT '' NOT NULL, 
	array_id INTEGER, 
	array_index INTEGER, 
	rest TEXT, 
	dropped TEXT, 
	UNIQUE (request_id)
);
INSERT INTO "jobs" VALUES(1,'waits','alice',1001,'{"command":{"form":"argv","words":["python","train.py"],"script":"","script_name":""},"request":{"gpus":1,"nodes":null,"gpus_per_node":null,"nodelist":[],"exclude":[],"gpu_ids":[],"pins":[],"gpu_types":[],"mixed":false,"gpu_memory_mib":null,"partition":"","exclusive":false,"policy":"","cpus":null,"host_memory_mib":null},"name":"train","kind":"batch","time_limit_s":null,"chdir":"","submit_dir":"","env":{"A":"caf\u00e9"},"setup":"","virtual_env":"","output":"","error":"","retries":0,"requeue":true,"signal":"","requeue_exits":[],"priority":0,"tier":0,"nice":0,"dependency":null,"array":"","account":"","client_absence_s":null,"asked":"","input":"","tree":null,"launcher":"none","tasks_per_node":null,"gpus_per_task":null}','train','','PENDING',1000.0,'','',NULL,NULL,NULL,0,'',0.0,0,'[]','',NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'runs','alice',1001,'{"command":{"form":"argv","words":["python","train.py"],"script":"","script_name":""},"request":{"gpus":1,"nodes":null,"gpus_per_node":null,"nodelist":[],"exclude":[],"gpu_ids":[],"pins":[],"gpu_types":[],"mixed":false,"gpu_memory_mib":null,"partition":"","exclusive":false,"policy":"","cpus":null,"host_memory_mib":null},"name":"train","kind":"batch","time_limit_s":null,"chdir":"","submit_dir":"","env":{},"setup":"","virtual_env":"","output":"","error":"","retries":0,"requeue":true,"signal":"","requeue_exits":[],"priority":0,"tier":0,"nice":0,"dependency":null,"array":"","account":"","client_absence_s":null,"asked":"","input":"","tree":null,"launcher":"none","tasks_per_node":null,"gpus_per_task":null}','train','','RUNNING',1000.0,'','',1002.0,NULL,NULL,1,'',0.0,0,'[]','',NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'ended','alice',1001,'{"command":{"form":"argv","words":["python","train.py"],"script":"","script_name":""},"request":{"gpus":1,"nodes":null,"gpus_per_node":null,"nodelist":[],"exclude":[],"gpu_ids":[],"pins":[],"gpu_types":[],"mixed":false,"gpu_memory_mib":null,"partition":"","exclusive":false,"policy":"","cpus":null,"host_memory_mib":null},"name":"train","kind":"batch","time_limit_s":null,"chdir":"","submit_dir":"","env":{},"setup":"","virtual_env":"","output":"","error":"","retries":0,"requeue":true,"signal":"","requeue_exits":[],"priority":0,"tier":0,"nice":0,"dependency":null,"array":"","account":"","client_absence_s":null,"asked":"","input":"","tree":null,"launcher":"none","tasks_per_node":null,"gpus_per_task":null}','train','','FAILED',1000.0,'','',1002.0,1010.0,3,0,'',0.0,0,'[]','',NULL,NULL,NULL,NULL);
CREATE TABLE meta (
	database_id VARCHAR(32) NOT NULL, 
	created FLOAT NOT NULL, notified INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (database_id)
);
INSERT INTO "meta" VALUES('cafecafecafecafecafecafecafecafe',1000.0,1);
CREATE TABLE nodes (
	name TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	reason TEXT NOT NULL, 
	since FLOAT, 
	last_seen FLOAT, 
	failures INTEGER NOT NULL, 
	observation TEXT, 
	marks TEXT NOT NULL, 
	streaks TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "nodes" VALUES('gpu01','UP','',3.0,5.0,0,NULL,'[]','[]');
CREATE TABLE parts (
	job_id INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	account TEXT NOT NULL, 
	devices TEXT NOT NULL, 
	uuids TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	hostname TEXT NOT NULL, 
	address TEXT NOT NULL, 
	pid INTEGER, 
	start_ticks INTEGER, 
	boot_id TEXT NOT NULL, 
	ready BOOLEAN NOT NULL, 
	started FLOAT, 
	ended FLOAT, 
	exit_code INTEGER, 
	stop TEXT NOT NULL, 
	failure VARCHAR NOT NULL, 
	reason TEXT NOT NULL, 
	lost_since FLOAT, 
	collected BOOLEAN NOT NULL, idle_since FLOAT, 
	PRIMARY KEY (job_id, attempt, rank), 
	FOREIGN KEY(job_id, attempt) REFERENCES attempts (job_id, number)
);
INSERT INTO "parts" VALUES(2,1,0,'gpu01','train','[0,1]','["GPU-0","GPU-1"]','RUNNING','','',4242,NULL,'',0,NULL,NULL,NULL,'','','',NULL,0,NULL);
INSERT INTO "parts" VALUES(3,1,0,'gpu01','train','[2]','["GPU-2"]','ENDED','','',NULL,NULL,'',0,NULL,1010.0,3,'','','',NULL,1,NULL);
CREATE TABLE sampled_devices (
	number INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	uuid TEXT NOT NULL, 
	shown_index INTEGER, 
	seen FLOAT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "sampled_devices" VALUES(1,'gpu01','GPU-0',0,1000.0);
INSERT INTO "sampled_devices" VALUES(2,'gpu01','GPU-1',1,1000.0);
CREATE TABLE samples (
	node TEXT NOT NULL, 
	length_s INTEGER NOT NULL, 
	start INTEGER NOT NULL, 
	entries BLOB NOT NULL, 
	PRIMARY KEY (node, length_s, start)
)
 WITHOUT ROWID

;
INSERT INTO "samples" VALUES('gpu01',60,960,X'01020202000002B4018104020202020000000000');
INSERT INTO "samples" VALUES('gpu01',900,900,X'01000202000002B4018104020002020000000000');
CREATE TABLE tokens (
	token_id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	uid INTEGER NOT NULL, 
	user TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created FLOAT NOT NULL, 
	expires FLOAT, 
	last_used FLOAT, 
	revoked FLOAT, 
	PRIMARY KEY (token_id)
);
INSERT INTO "tokens" VALUES('0a1b2c3d','abababababababababababababababababababababababababababababababab',1001,'alice','laptop',1000.0,NULL,NULL,NULL);
CREATE TABLE uses (
	job_id INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	measured_s FLOAT NOT NULL, 
	busy_s FLOAT NOT NULL, 
	idle_s FLOAT NOT NULL, 
	memory_mib INTEGER, 
	idle_since FLOAT, 
	quiet_s FLOAT NOT NULL, 
	PRIMARY KEY (job_id, attempt, rank), 
	FOREIGN KEY(job_id, attempt, rank) REFERENCES parts (job_id, attempt, rank)
);
INSERT INTO "uses" VALUES(2,1,0,60.0,54.0,0.0,512,NULL,0.0);
CREATE INDEX jobs_pending ON jobs (job_id) WHERE state = 'PENDING';
CREATE INDEX jobs_active_task ON jobs (array_id) WHERE (array_id IS NOT NULL AND state IN ('PENDING', 'RUNNING'));
CREATE INDEX jobs_ended ON jobs (end_time, job_id) WHERE state NOT IN ('PENDING', 'RUNNING');
CREATE INDEX jobs_active ON jobs (job_id) WHERE state IN ('PENDING', 'RUNNING');
CREATE UNIQUE INDEX jobs_task ON jobs (array_id, array_index) WHERE array_id IS NOT NULL;
CREATE INDEX audit_node ON audit (node);
CREATE INDEX audit_job ON audit (job_id);
CREATE INDEX parts_open ON parts (job_id, attempt, rank) WHERE (state <> 'ENDED' OR collected = 0);
CREATE INDEX holds_part ON holds (job_id, attempt, rank);
CREATE UNIQUE INDEX holds_device ON holds (node, uuid) WHERE released IS NULL;
CREATE INDEX audit_who ON audit (who);
CREATE TRIGGER audit_keeps_words BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE UNIQUE INDEX sampled_device ON sampled_devices (node, uuid);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',3);
COMMIT;
