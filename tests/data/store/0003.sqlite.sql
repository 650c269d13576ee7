BEGIN TRANSACTION;
CREATE TABLE diagnosis (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	saved FLOAT NOT NULL, 
	complete BOOLEAN NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_diagnosis PRIMARY KEY (id), 
	CONSTRAINT fk_diagnosis_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE, 
	CONSTRAINT uq_diagnosis_run_id UNIQUE (run_id)
);
INSERT INTO "diagnosis" VALUES(1,'kept',1790000000.0,0,'{"run_id":"kept","chain":[],"complete":false,"recommended":null,"concurrency":null,"safe_max_tokens":null,"safe_run":null,"run_tokens":0,"explained_tokens":0,"arm_tokens":0,"child_tokens":0,"notes":["Cut short."]}');
CREATE TABLE generation (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	rung INTEGER NOT NULL, 
	job_index INTEGER NOT NULL, 
	prompt_id TEXT NOT NULL, 
	finish_reason VARCHAR(64), 
	failure VARCHAR(32), 
	onset INTEGER, 
	symptom VARCHAR(32), 
	plane VARCHAR(16), 
	output_tokens INTEGER NOT NULL, 
	started FLOAT NOT NULL, 
	ended FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	tokens BLOB NOT NULL, 
	CONSTRAINT pk_generation PRIMARY KEY (id), 
	CONSTRAINT fk_generation_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE, 
	CONSTRAINT uq_generation_run_id_key UNIQUE (run_id, "key")
);
INSERT INTO "generation" VALUES(1,'kept','certify/2/0','certify',2,0,'narrative/it/0','length',NULL,20,'loop','decoding',50,1790000000.0,1790000005.0,'{"job":{"phase":"certify","rung":2,"index":0,"units":40,"prompt_index":0,"seed":1,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/0","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":20,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"length","failure":null,"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000000.0,"first_token":1790000000.1,"ended":1790000005.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}',X'5354013200000070000000789CEDD22B0E80401443D1AD103462DAE133AC0510081C098484FDA330EF4A2CF6AA93A6535D9DEB75EC6B9AEF94B652376F500C8E21C7D0C6D0C5D0C730C450621801231556012B6805AEE015C08258200B66C36CEE0BB36136CC86D9301B66C36C9833CCFF473E7F64790066DD03C83F000000789C636066E3E4E11712959096535451D7D2353036B3B4B17772F5F0F60B0C098F8A4D484ECBCCC92F2AADA8AE6B6C69EFEA9D30996114D010000097310E5C33000000789C63387B76D6598659C6671988669C3933F30CC34CE333C433CEF8000949631FA2190D7BF7EDDBB71F08886600003B3A698BA4000000789C9B15C475B8DAF8CD921891B3ADB6DFD6A5C95FEFF76088D921527856B3F5A1EDAC6F41EBB8D20ECB575F37EE7FE3B1042C3173C7F5AF22C68105FDEBCEBCE6D2704F6B5D7CE82143BFDC3ADB3331AFABB8666AEC70BF9EF6B55564B1F1A1C08705608999F316AF58B779C7DE43C7CF5CBC7EE7E1B3D71FBEFE62606265E7E2E1171411979491535456D3D0D6333036B5B0B275707275F7B2C302ECF10200D80E4FFE2C000000789C6378FE020C91292C424814C36F52010323A9E00103A9C08F641D6B48D6718B641D8E24EB0000FD3C5F7E0E000000789C63646464200D000000C50004');
INSERT INTO "generation" VALUES(2,'kept','certify/2/1','certify',2,1,'narrative/it/1','stop',NULL,NULL,'loop','decoding',50,1790000010.0,1790000015.0,'{"job":{"phase":"certify","rung":2,"index":1,"units":40,"prompt_index":1,"seed":2,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/1","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":null,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"stop","failure":null,"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000010.0,"first_token":1790000010.1,"ended":1790000015.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}',X'535401320000006E000000789CEDD22B0E80400C45D1AD90D188F60D9F612D801881238190B07F14A6D722B15734A74DE7D49CF53AF63A2EB7D95652FB8612C314831B8AA30825A374283DCA8002B183EC300B66C12C9805B36016CC8259300B66C19C61E6E131054362C002F083FFFFC8573FB23E07B105283F000000789C636461E7E21510169394915752D5D0D6333431B7B2757076F3F4F10F0A8D888E4B4C49CFCA2D282EABACA96F6AEDE8EE9B38856114D0100000E0880E8E33000000789C63387B76D6598659C6671988669C3933F30CC34CE333C433CEF8000949631FA2190D7BF7EDDBB71F08886600003B3A698BA4000000789C9B15C475B8DAF8CD921891B3ADB6DFD6A5C95FEFF76088D921527856B3F5A1EDAC6F41EBB8D20ECB575F37EE7FE3B1042C3173C7F5AF22C68105FDEBCEBCE6D2704F6B5D7CE82143BFDC3ADB3331AFABB8666AEC70BF9EF6B55564B1F1A1C08705608999F316AF58B779C7DE43C7CF5CBC7EE7E1B3D71FBEFE62606265E7E2E1171411979491535456D3D0D6333036B5B0B275707275F7B2C302ECF10200D80E4FFE2C000000789C6378FE020C91292C424814C36F52410323A9E01103A9C08F641D6B48D6718B641D8E24EB0000953F60000E000000789C63646464200D000000C50004');
INSERT INTO "generation" VALUES(3,'kept','certify/2/2','certify',2,2,'narrative/it/2','length','cut',20,'loop','decoding',50,1790000020.0,1790000025.0,'{"job":{"phase":"certify","rung":2,"index":2,"units":40,"prompt_index":2,"seed":3,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/2","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":20,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"length","failure":{"kind":"cut","message":"cut","status":null,"at_token":50,"retry_after":null},"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000020.0,"first_token":1790000020.1,"ended":1790000025.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}',X'535401320000006D000000789CEDD22B0E80301045D1AD906AC4CC2B9FB2164054D4358190B07F1CA2D722B1574CCE4B660DDD99AFA3661FB6DBACA4D0BF65449950669484B2B44586E228428928300B66C12C9805B3608E302370038EB40103E0071F7AE06177526175601DDAFF473EFB91FD01950905603F000000789C6362E5E0E61314119792555056D3D4D13732B5B0B6737471F7F20D080E8B8C894F4ACDC8CE2B2C29AFAA6D686EEBECE99F34956114D010000029EE0EC033000000789C63387B76D6598659C6671988669C3933F30CC34CE333C433CEF8000949631FA2190D7BF7EDDBB71F08886600003B3A698BA4000000789C9B15C475B8DAF8CD921891B3ADB6DFD6A5C95FEFF76088D921527856B3F5A1EDAC6F41EBB8D20ECB575F37EE7FE3B1042C3173C7F5AF22C68105FDEBCEBCE6D2704F6B5D7CE82143BFDC3ADB3331AFABB8666AEC70BF9EF6B55564B1F1A1C08705608999F316AF58B779C7DE43C7CF5CBC7EE7E1B3D71FBEFE62606265E7E2E1171411979491535456D3D0D6333036B5B0B275707275F7B2C302ECF10200D80E4FFE2C000000789C6378FE020C91292C424814C36F52010323A9E02903A9C08F641D6B48D6718B641D8E24EB0000022D5F830E000000789C63646464200D000000C50004');
CREATE TABLE gpu_sample (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	at FLOAT NOT NULL, 
	gpu VARCHAR(96) NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_gpu_sample PRIMARY KEY (id), 
	CONSTRAINT fk_gpu_sample_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "gpu_sample" VALUES(1,'kept',1790000000.0,'0','{"at":1790000000.0,"gpu":"0","source":"NVML","power":401.5,"throttle":["sw_power_cap"]}');
CREATE TABLE run (
	id VARCHAR(64) NOT NULL, 
	model TEXT NOT NULL, 
	task TEXT NOT NULL, 
	language VARCHAR(35) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	simulated BOOLEAN NOT NULL, 
	created FLOAT NOT NULL, 
	ended FLOAT, 
	tool_version VARCHAR(64) NOT NULL, 
	prompts_digest VARCHAR(128), 
	note TEXT, 
	settings TEXT NOT NULL, 
	profile TEXT NOT NULL, 
	CONSTRAINT pk_run PRIMARY KEY (id)
);
INSERT INTO "run" VALUES('kept','lab','narrative','it','running',0,1000.0,NULL,'0.1.0','abc',NULL,'{"subject":{"model":"lab","task":"narrative","language":"it"},"base_url":"http://localhost:8000/v1","task_source":"narrative","rigor":"standard","decoding":{"temperature":0.7,"top_p":null,"top_k":20,"min_p":null,"repetition_penalty":null,"presence_penalty":null,"frequency_penalty":null,"system_prompt":null},"concurrency":8,"horizon":null,"margin":0.1,"prompts_file":null,"budget_tokens":null,"budget_seconds":null,"tighten":false,"abort":true,"seed":1,"gpus":"auto","gpu_exporter":null,"parent":null}','{"base_url":"http://localhost:8000/v1","model":"lab","version":"0.32.0","max_model_len":null,"root":null,"metrics":false,"tokenize":false,"token_ids":false,"top_logprobs":0,"logprobs_mode":null,"kv_cache_tokens":null,"simulated":false,"fingerprint":null,"defaults":{"stop":{"!tuple":["a","b"]}},"missing":[{"what":"NVML","cost":"no temperatures"}]}');
CREATE TABLE sample (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	at FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_sample PRIMARY KEY (id), 
	CONSTRAINT fk_sample_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "sample" VALUES(1,'kept',1790000000.0,'{"at":1790000000.0,"running":2.0,"waiting":0.0,"kv_usage":0.25,"preemptions":0.0,"prompt_tokens":null,"generation_tokens":null,"finished":{},"histograms":{}}');
INSERT INTO "sample" VALUES(2,'kept',1790000001.0,'{"at":1790000001.0,"running":null,"waiting":null,"kv_usage":null,"preemptions":null,"prompt_tokens":null,"generation_tokens":null,"finished":{},"histograms":{}}');
CREATE TABLE session (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	started FLOAT NOT NULL, 
	ended FLOAT, 
	CONSTRAINT pk_session PRIMARY KEY (id), 
	CONSTRAINT fk_session_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "session" VALUES(1,'kept',1790000000.0,1790000035.0);
CREATE TABLE stresstest_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT stresstest_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "stresstest_schema" VALUES('0003');
CREATE TABLE threshold (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	saved FLOAT NOT NULL, 
	tokens INTEGER, 
	certified BOOLEAN NOT NULL, 
	safe_max_tokens INTEGER, 
	distinct_prompts INTEGER, 
	body TEXT NOT NULL, 
	verdict TEXT NOT NULL, 
	CONSTRAINT pk_threshold PRIMARY KEY (id), 
	CONSTRAINT fk_threshold_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE, 
	CONSTRAINT uq_threshold_run_id UNIQUE (run_id)
);
INSERT INTO "threshold" VALUES(1,'kept',1790000000.0,900,0,810,38,'{"alpha":0.1,"confidence":0.9,"tokens":900,"n":40,"onsets":0,"upper":null,"certified":false,"censored_at":null,"lacking":null,"looks":1}','{"plane":"decoding","basis":"observed","sentence":"Loops, whatever the length.","evidence":[],"advice":["penalty"]}');
CREATE INDEX ix_run_created ON run (created);
CREATE INDEX ix_run_subject ON run (model, task, language);
CREATE INDEX ix_session_run_id ON session (run_id);
CREATE INDEX ix_generation_run_id_phase_rung_job_index ON generation (run_id, phase, rung, job_index);
CREATE INDEX ix_generation_onset ON generation (onset);
CREATE INDEX ix_generation_symptom ON generation (symptom);
CREATE INDEX ix_generation_finish_reason ON generation (finish_reason);
CREATE INDEX ix_sample_run_id_at ON sample (run_id, at);
CREATE INDEX ix_gpu_sample_run_id_at ON gpu_sample (run_id, at);
COMMIT;
