SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.diagnosis (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    saved double precision NOT NULL,
    complete boolean NOT NULL,
    body text NOT NULL
);
CREATE SEQUENCE public.diagnosis_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.diagnosis_id_seq OWNED BY public.diagnosis.id;
CREATE TABLE public.generation (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    key character varying(64) NOT NULL,
    phase character varying(16) NOT NULL,
    rung integer NOT NULL,
    job_index integer NOT NULL,
    prompt_id text NOT NULL,
    finish_reason character varying(64),
    failure character varying(32),
    onset integer,
    symptom character varying(32),
    plane character varying(16),
    output_tokens integer NOT NULL,
    started double precision NOT NULL,
    ended double precision NOT NULL,
    body text NOT NULL,
    tokens bytea NOT NULL
);
CREATE SEQUENCE public.generation_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.generation_id_seq OWNED BY public.generation.id;
CREATE TABLE public.gpu_sample (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    at double precision NOT NULL,
    gpu character varying(96) NOT NULL,
    body text NOT NULL
);
CREATE SEQUENCE public.gpu_sample_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.gpu_sample_id_seq OWNED BY public.gpu_sample.id;
CREATE TABLE public.run (
    id character varying(64) NOT NULL,
    model text NOT NULL,
    task text NOT NULL,
    language character varying(35) NOT NULL,
    status character varying(16) NOT NULL,
    simulated boolean NOT NULL,
    created double precision NOT NULL,
    ended double precision,
    tool_version character varying(64) NOT NULL,
    prompts_digest character varying(128),
    note text,
    settings text NOT NULL,
    profile text NOT NULL
);
CREATE TABLE public.sample (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    at double precision NOT NULL,
    body text NOT NULL
);
CREATE SEQUENCE public.sample_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sample_id_seq OWNED BY public.sample.id;
CREATE TABLE public.session (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    started double precision NOT NULL,
    ended double precision
);
CREATE SEQUENCE public.session_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.session_id_seq OWNED BY public.session.id;
CREATE TABLE public.stresstest_schema (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.threshold (
    id integer NOT NULL,
    run_id character varying(64) NOT NULL,
    saved double precision NOT NULL,
    tokens integer,
    certified boolean NOT NULL,
    safe_max_tokens integer,
    distinct_prompts integer,
    body text NOT NULL,
    verdict text NOT NULL
);
CREATE SEQUENCE public.threshold_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.threshold_id_seq OWNED BY public.threshold.id;
ALTER TABLE ONLY public.diagnosis ALTER COLUMN id SET DEFAULT nextval('public.diagnosis_id_seq'::regclass);
ALTER TABLE ONLY public.generation ALTER COLUMN id SET DEFAULT nextval('public.generation_id_seq'::regclass);
ALTER TABLE ONLY public.gpu_sample ALTER COLUMN id SET DEFAULT nextval('public.gpu_sample_id_seq'::regclass);
ALTER TABLE ONLY public.sample ALTER COLUMN id SET DEFAULT nextval('public.sample_id_seq'::regclass);
ALTER TABLE ONLY public.session ALTER COLUMN id SET DEFAULT nextval('public.session_id_seq'::regclass);
ALTER TABLE ONLY public.threshold ALTER COLUMN id SET DEFAULT nextval('public.threshold_id_seq'::regclass);
INSERT INTO public.diagnosis VALUES (1, 'kept', 1790000000, false, '{"run_id":"kept","chain":[],"complete":false,"recommended":null,"concurrency":null,"safe_max_tokens":null,"safe_run":null,"run_tokens":0,"explained_tokens":0,"arm_tokens":0,"child_tokens":0,"notes":["Cut short."]}');
INSERT INTO public.generation VALUES (1, 'kept', 'certify/2/0', 'certify', 2, 0, 'narrative/it/0', 'length', NULL, 20, 'loop', 'decoding', 50, 1790000000, 1790000005, '{"job":{"phase":"certify","rung":2,"index":0,"units":40,"prompt_index":0,"seed":1,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/0","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":20,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"length","failure":null,"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000000.0,"first_token":1790000000.1,"ended":1790000005.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}', '\x5354013200000070000000789cedd22b0e80401443d1ad103462dae133ac0510081c098484fda330ef4a2cf6aa93a6535d9deb75ec6b9aef94b652376f500c8e21c7d0c6d0c5d0c730c450621801231556012b6805aee015c08258200b66c36cee0bb36136cc86d9301b66c36c9833ccff473e7f64790066dd03c83f000000789c636066e3e4e11712959096535451d7d2353036b3b4b17772f5f0f60b0c098f8a4d484ecbccc92f2aada8ae6b6c69efea9d30996114d010000097310e5c33000000789c63387b76d6598659c6671988669c3933f30cc34ce333c433cef8000949631fa2190d7bf7eddbb71f08886600003b3a698ba4000000789c9b15c475b8daf8cd921891b3adb6dfd6a5c95feff76088d921527856b3f5a1edac6f41ebb8d20ecb575f37ee7fe3b1042c3173c7f5af22c68105fdebcebce6d2704f6b5d7ce82143bfdc3adb3331afabb8666aec70bf9ef6b55564b1f1a1c08705608999f316af58b779c7de43c7cf5cbc7ee7e1b3d71fbefe62606265e7e2e1171411979491535456d3d0d6333036b5b0b275707275f7b2c302ecf10200d80e4ffe2c000000789c6378fe020c91292c424814c36f52010323a9e00103a9c08f641d6b48d6718b641d8e24eb0000fd3c5f7e0e000000789c63646464200d000000c50004');
INSERT INTO public.generation VALUES (2, 'kept', 'certify/2/1', 'certify', 2, 1, 'narrative/it/1', 'stop', NULL, NULL, 'loop', 'decoding', 50, 1790000010, 1790000015, '{"job":{"phase":"certify","rung":2,"index":1,"units":40,"prompt_index":1,"seed":2,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/1","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":null,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"stop","failure":null,"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000010.0,"first_token":1790000010.1,"ended":1790000015.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}', '\x535401320000006e000000789cedd22b0e80400c45d1ad90d188f60d9f612d801881238190b07f14a6d722b15734a74de7d49cf53af63a2eb7d95652fb8612c314831b8aa30825a374283dca8002b183ec300b66c12c9805b36016cc8259300b66c19c61e6e131054362c002f083ffffc8573fb23e07b105283f000000789c636461e7e21510169394915752d5d0d6333431b7b2757076f3f4f10f0a8d888e4b4c49cfca2d282eabaca96f6aede8ee9b38856114d0100000e0880e8e33000000789c63387b76d6598659c6671988669c3933f30cc34ce333c433cef8000949631fa2190d7bf7eddbb71f08886600003b3a698ba4000000789c9b15c475b8daf8cd921891b3adb6dfd6a5c95feff76088d921527856b3f5a1edac6f41ebb8d20ecb575f37ee7fe3b1042c3173c7f5af22c68105fdebcebce6d2704f6b5d7ce82143bfdc3adb3331afabb8666aec70bf9ef6b55564b1f1a1c08705608999f316af58b779c7de43c7cf5cbc7ee7e1b3d71fbefe62606265e7e2e1171411979491535456d3d0d6333036b5b0b275707275f7b2c302ecf10200d80e4ffe2c000000789c6378fe020c91292c424814c36f52410323a9e01103a9c08f641d6b48d6718b641d8e24eb0000953f60000e000000789c63646464200d000000c50004');
INSERT INTO public.generation VALUES (3, 'kept', 'certify/2/2', 'certify', 2, 2, 'narrative/it/2', 'length', 'cut', 20, 'loop', 'decoding', 50, 1790000020, 1790000025, '{"job":{"phase":"certify","rung":2,"index":2,"units":40,"prompt_index":2,"seed":3,"max_tokens":4096,"arm":""},"prompt_id":"narrative/it/2","prompt_text":"Scrivi una storia in 40 paragrafi numerati. Tema: il mare.","verdict":{"tokens":50,"observed":19,"onset":20,"alarm":33,"symptom":"loop","symptoms":[{"kind":"loop","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":true,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."},{"kind":"entropy_shift","onset":20,"alarm":33,"start":8,"end":null,"score":0.75,"confirmed":false,"detail":{"period":12,"exponent":3.25,"words":{"!tuple":["uno","due"]},"nested":{"limits":[1,{"!tuple":[2,3]}]}},"summary":"Dodici token si ripetono."}],"zones":[{"kind":"stable","start":1,"end":19},{"kind":"collapsed","start":20,"end":50}],"units":3,"recovered":false,"loops_to_end":false,"score":0.75},"finish_reason":"length","failure":{"kind":"cut","message":"cut","status":null,"at_token":50,"retry_after":null},"aborted":true,"prompt_tokens":31,"output_tokens":50,"token_source":"server","started":1790000020.0,"first_token":1790000020.1,"ended":1790000025.0,"loop_lag":0.004,"attempts":1,"invalid_from":null,"plane":"decoding","evidence":[{"plane":"system","supports":false,"source":"vllm /metrics","fact":"no preemption","value":0.0,"at":1.5,"token":7}]}', '\x535401320000006d000000789cedd22b0e80301045d1ad906ac4cc2b9fb2164054d4358190b07f1ca2d722b1574cce4b660ddd99afa3661fb6dbaca4d0bf65449950669484b2b44586e228428928300b66c12c9805b3608e302370038eb40103e0071f7ae06177526175601ddaff473efb91fd01950905603f000000789c6362e5e0e61314119792555056d3d4d13732b5b0b6737471f7f20d080e8b8c894f4acdc8ce2b2c29afaa6d686eebece99f34956114d010000029ee0ec033000000789c63387b76d6598659c6671988669c3933f30cc34ce333c433cef8000949631fa2190d7bf7eddbb71f08886600003b3a698ba4000000789c9b15c475b8daf8cd921891b3adb6dfd6a5c95feff76088d921527856b3f5a1edac6f41ebb8d20ecb575f37ee7fe3b1042c3173c7f5af22c68105fdebcebce6d2704f6b5d7ce82143bfdc3adb3331afabb8666aec70bf9ef6b55564b1f1a1c08705608999f316af58b779c7de43c7cf5cbc7ee7e1b3d71fbefe62606265e7e2e1171411979491535456d3d0d6333036b5b0b275707275f7b2c302ecf10200d80e4ffe2c000000789c6378fe020c91292c424814c36f52010323a9e02903a9c08f641d6b48d6718b641d8e24eb0000022d5f830e000000789c63646464200d000000c50004');
INSERT INTO public.gpu_sample VALUES (1, 'kept', 1790000000, '0', '{"at":1790000000.0,"gpu":"0","source":"NVML","power":401.5,"throttle":["sw_power_cap"]}');
INSERT INTO public.run VALUES ('kept', 'lab', 'narrative', 'it', 'running', false, 1000, NULL, '0.1.0', 'abc', NULL, '{"subject":{"model":"lab","task":"narrative","language":"it"},"base_url":"http://localhost:8000/v1","task_source":"narrative","rigor":"standard","decoding":{"temperature":0.7,"top_p":null,"top_k":20,"min_p":null,"repetition_penalty":null,"presence_penalty":null,"frequency_penalty":null,"system_prompt":null},"concurrency":8,"horizon":null,"margin":0.1,"prompts_file":null,"budget_tokens":null,"budget_seconds":null,"tighten":false,"abort":true,"seed":1,"gpus":"auto","gpu_exporter":null,"parent":null}', '{"base_url":"http://localhost:8000/v1","model":"lab","version":"0.32.0","max_model_len":null,"root":null,"metrics":false,"tokenize":false,"token_ids":false,"top_logprobs":0,"logprobs_mode":null,"kv_cache_tokens":null,"simulated":false,"fingerprint":null,"defaults":{"stop":{"!tuple":["a","b"]}},"missing":[{"what":"NVML","cost":"no temperatures"}]}');
INSERT INTO public.sample VALUES (1, 'kept', 1790000000, '{"at":1790000000.0,"running":2.0,"waiting":0.0,"kv_usage":0.25,"preemptions":0.0,"prompt_tokens":null,"generation_tokens":null,"finished":{},"histograms":{}}');
INSERT INTO public.sample VALUES (2, 'kept', 1790000001, '{"at":1790000001.0,"running":null,"waiting":null,"kv_usage":null,"preemptions":null,"prompt_tokens":null,"generation_tokens":null,"finished":{},"histograms":{}}');
INSERT INTO public.session VALUES (1, 'kept', 1790000000, 1790000035);
INSERT INTO public.stresstest_schema VALUES ('0003');
INSERT INTO public.threshold VALUES (1, 'kept', 1790000000, 900, false, 810, 38, '{"alpha":0.1,"confidence":0.9,"tokens":900,"n":40,"onsets":0,"upper":null,"certified":false,"censored_at":null,"lacking":null,"looks":1}', '{"plane":"decoding","basis":"observed","sentence":"Loops, whatever the length.","evidence":[],"advice":["penalty"]}');
SELECT pg_catalog.setval('public.diagnosis_id_seq', 1, true);
SELECT pg_catalog.setval('public.generation_id_seq', 3, true);
SELECT pg_catalog.setval('public.gpu_sample_id_seq', 1, true);
SELECT pg_catalog.setval('public.sample_id_seq', 2, true);
SELECT pg_catalog.setval('public.session_id_seq', 1, true);
SELECT pg_catalog.setval('public.threshold_id_seq', 1, true);
ALTER TABLE ONLY public.diagnosis
    ADD CONSTRAINT pk_diagnosis PRIMARY KEY (id);
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT pk_generation PRIMARY KEY (id);
ALTER TABLE ONLY public.gpu_sample
    ADD CONSTRAINT pk_gpu_sample PRIMARY KEY (id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT pk_run PRIMARY KEY (id);
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT pk_sample PRIMARY KEY (id);
ALTER TABLE ONLY public.session
    ADD CONSTRAINT pk_session PRIMARY KEY (id);
ALTER TABLE ONLY public.threshold
    ADD CONSTRAINT pk_threshold PRIMARY KEY (id);
ALTER TABLE ONLY public.stresstest_schema
    ADD CONSTRAINT stresstest_schema_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.diagnosis
    ADD CONSTRAINT uq_diagnosis_run_id UNIQUE (run_id);
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT uq_generation_run_id_key UNIQUE (run_id, key);
ALTER TABLE ONLY public.threshold
    ADD CONSTRAINT uq_threshold_run_id UNIQUE (run_id);
CREATE INDEX ix_generation_finish_reason ON public.generation USING btree (finish_reason);
CREATE INDEX ix_generation_onset ON public.generation USING btree (onset);
CREATE INDEX ix_generation_run_id_phase_rung_job_index ON public.generation USING btree (run_id, phase, rung, job_index);
CREATE INDEX ix_generation_symptom ON public.generation USING btree (symptom);
CREATE INDEX ix_gpu_sample_run_id_at ON public.gpu_sample USING btree (run_id, at);
CREATE INDEX ix_run_created ON public.run USING btree (created);
CREATE INDEX ix_run_subject ON public.run USING btree (model, task, language);
CREATE INDEX ix_sample_run_id_at ON public.sample USING btree (run_id, at);
CREATE INDEX ix_session_run_id ON public.session USING btree (run_id);
ALTER TABLE ONLY public.diagnosis
    ADD CONSTRAINT fk_diagnosis_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT fk_generation_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.gpu_sample
    ADD CONSTRAINT fk_gpu_sample_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT fk_sample_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.session
    ADD CONSTRAINT fk_session_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.threshold
    ADD CONSTRAINT fk_threshold_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
