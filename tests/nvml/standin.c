/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that the real ctypes path runs without a GPU.
 *
 * It answers from the text file that NVML_SCRIPT names, one command a line:
 *
 *   init CODE                    what nvmlInitWithFlags returns (0: success)
 *   gpu UUID NAME                one more GPU; the ones below are numbered from 0
 *   mig GPU UUID USED TOTAL      puts GPU in MIG mode with one more instance (bytes)
 *   at K GPU FIELD VALUE         from the GPU's reading K on (0: the first), FIELD reads VALUE
 *   fail K GPU FIELD CODE        from reading K on, the call for FIELD returns CODE (0: works again)
 *   fail K GPU all CODE          the same for every call of that GPU
 *   xid K GPU NUMBER             an XID that arrives with reading K
 *   slow K GPU FIELD MILLISECONDS   from reading K on, the call for FIELD takes so long
 *
 * A reading begins when a call is made for the second time. With -DOLD_DRIVER the functions that old
 * drivers do not have are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10 };
enum { GPUS = 8, INSTANCES = 7, RULES = 512, XID_EVENT = 8 };

static const char *const FIELDS[] = {"utilisation", "memory_used", "memory_total", "power", "power_limit",
                                     "temperature", "sm_clock", "memory_clock", "throttle",
                                     "ecc_uncorrected", "pcie_replays", "xids", "all", NULL};
enum { UTILISATION, MEMORY_USED, MEMORY_TOTAL, POWER, POWER_LIMIT, TEMPERATURE, SM_CLOCK, MEMORY_CLOCK,
       THROTTLE, ECC, REPLAYS, XIDS, ALL };

typedef struct Gpu {
    char uuid[96], name[96];
    int index, reading, mig, instances, watched;
    unsigned asked;                     /* fields asked for in this reading */
    struct Gpu *parts[INSTANCES];
    unsigned long long used, total;     /* of a MIG instance */
    int is_part;
} Gpu;

typedef struct { char kind; int from, gpu, field; long long value; int done; } Rule;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned version, sensor; int temperature; } Temperature;
typedef struct { Gpu *gpu; unsigned long long type, data; unsigned gi, ci; } Event;

static Gpu gpus[GPUS];
static Rule rules[RULES];
static int gpu_count, rule_count, init_code;

static int field_of(const char *name) {
    for (int i = 0; FIELDS[i]; i++)
        if (!strcmp(FIELDS[i], name)) return i;
    fprintf(stderr, "stand-in NVML: unknown field %s\n", name);
    exit(70);
}

static void add_part(int gpu, const char *uuid, unsigned long long used, unsigned long long total) {
    Gpu *part = calloc(1, sizeof *part);
    Gpu *whole = &gpus[gpu];
    strcpy(part->uuid, uuid);
    strcpy(part->name, "stand-in MIG");
    part->used = used, part->total = total, part->is_part = 1, part->index = gpu;
    whole->mig = 1;
    whole->parts[whole->instances++] = part;
}

static void read_script(void) {
    char line[256], word[16], text[96], more[96];
    int a, b;
    long long n, m;
    FILE *file = fopen(getenv("NVML_SCRIPT") ? getenv("NVML_SCRIPT") : "", "r");
    if (!file) { fprintf(stderr, "stand-in NVML: NVML_SCRIPT cannot be read\n"); exit(70); }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s", word) != 1 || word[0] == '#') continue;
        Rule *rule = &rules[rule_count];
        if (sscanf(line, "init %d", &init_code) == 1) continue;
        if (sscanf(line, "gpu %95s %95[^\n]", text, more) == 2) {
            Gpu *gpu = &gpus[gpu_count];
            strcpy(gpu->uuid, text), strcpy(gpu->name, more), gpu->index = gpu_count++;
        } else if (sscanf(line, "mig %d %95s %lld %lld", &a, text, &n, &m) == 4) {
            add_part(a, text, n, m);
        } else if (sscanf(line, "xid %d %d %lld", &a, &b, &n) == 3) {
            *rule = (Rule){'x', a, b, XIDS, n, 0}, rule_count++;
        } else if (sscanf(line, "%15s %d %d %95s %lli", word, &a, &b, text, &n) == 5) {
            *rule = (Rule){word[0], a, b, field_of(text), n, 0}, rule_count++;
        } else {
            fprintf(stderr, "stand-in NVML: cannot read %s", line);
            exit(70);
        }
    }
    fclose(file);
}

/* The last rule of a kind that is in force for a field. */
static Rule *in_force(char kind, const Gpu *gpu, int field) {
    Rule *found = NULL;
    for (int i = 0; i < rule_count; i++)
        if (rules[i].kind == kind && rules[i].gpu == gpu->index && rules[i].from <= gpu->reading &&
            (rules[i].field == field || (kind == 'f' && rules[i].field == ALL)))
            found = &rules[i];
    return found;
}

/* Every reading call comes through here: counts readings, sleeps, fails, or finds the value. */
static int answer(Gpu *gpu, int field, long long *value) {
    if (!gpu) return INVALID_ARGUMENT;
    if (gpu->is_part) return NOT_SUPPORTED;
    if (gpu->asked >> field & 1) gpu->reading++, gpu->asked = 0;
    gpu->asked |= 1u << field;
    Rule *slow = in_force('s', gpu, field), *fail = in_force('f', gpu, field);
    if (slow) {
        struct timespec pause = {slow->value / 1000, slow->value % 1000 * 1000000L};
        nanosleep(&pause, NULL);
    }
    if (fail && fail->value) return (int)fail->value;
    Rule *set = in_force('a', gpu, field);
    if (!set) return NOT_SUPPORTED;
    *value = set->value;
    return OK;
}

static int answer_unsigned(Gpu *gpu, int field, unsigned *out) {
    long long value = 0;
    int code = answer(gpu, field, &value);
    *out = (unsigned)value;
    return code;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    gpu_count = rule_count = init_code = 0;
    memset(gpus, 0, sizeof gpus);
    read_script();
    return init_code;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "scripted error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return snprintf(out, size, "999.1") < 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpu_count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **out) {
    if (index >= (unsigned)gpu_count) return INVALID_ARGUMENT;
    Rule *fail = in_force('f', &gpus[index], ALL);
    if (fail && fail->from == 0 && fail->value) return (int)fail->value;
    *out = &gpus[index];
    return OK;
}
int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned size) { return snprintf(out, size, "%s", gpu->name) < 0; }
int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) { return snprintf(out, size, "%s", gpu->uuid) < 0; }

int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *current, unsigned *pending) {
    *current = *pending = gpu->mig;
    return gpu->mig ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned *count) { *count = gpu->mig ? INSTANCES : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, Gpu **out) {
    if (index >= (unsigned)gpu->instances) return NOT_FOUND;
    *out = gpu->parts[index];
    return OK;
}

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilisation *out) {
    out->memory = 0;
    return gpu && gpu->mig ? NOT_SUPPORTED : answer_unsigned(gpu, UTILISATION, &out->gpu);
}
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *out) {
    long long used = 0, total = 0;
    if (gpu && gpu->is_part) { *out = (Memory){gpu->total, gpu->total - gpu->used, gpu->used}; return OK; }
    int code = answer(gpu, MEMORY_USED, &used);
    if (code == OK) code = answer(gpu, MEMORY_TOTAL, &total);
    *out = (Memory){total, total - used, used};
    return code;
}
int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *out) { return answer_unsigned(gpu, POWER, out); }
int nvmlDeviceGetEnforcedPowerLimit(Gpu *gpu, unsigned *out) { return answer_unsigned(gpu, POWER_LIMIT, out); }
int nvmlDeviceGetClockInfo(Gpu *gpu, unsigned type, unsigned *out) {
    return answer_unsigned(gpu, type == 1 ? SM_CLOCK : MEMORY_CLOCK, out);
}
int nvmlDeviceGetTotalEccErrors(Gpu *gpu, unsigned type, unsigned counter, unsigned long long *out) {
    long long value = 0;
    int code = type == 1 && counter == 0 ? answer(gpu, ECC, &value) : INVALID_ARGUMENT;
    *out = value;
    return code;
}
int nvmlDeviceGetPcieReplayCounter(Gpu *gpu, unsigned *out) { return answer_unsigned(gpu, REPLAYS, out); }

static int reasons(Gpu *gpu, unsigned long long *out) {
    long long value = 0;
    int code = answer(gpu, THROTTLE, &value);
    *out = value;
    return code;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu *gpu, unsigned long long *out) { return reasons(gpu, out); }
int nvmlDeviceGetTemperature(Gpu *gpu, unsigned sensor, unsigned *out) {
    (void)sensor;
    return answer_unsigned(gpu, TEMPERATURE, out);
}
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Gpu *gpu, unsigned long long *out) { return reasons(gpu, out); }
int nvmlDeviceGetTemperatureV(Gpu *gpu, Temperature *out) {
    long long value = 0;
    int code = answer(gpu, TEMPERATURE, &value);
    out->temperature = (int)value;
    return code;
}
#endif

int nvmlEventSetCreate(void **set) { *set = gpus; return OK; }
int nvmlEventSetFree(void *set) {
    (void)set;
    for (int i = 0; i < gpu_count; i++) gpus[i].watched = 0;
    return OK;
}
int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long types, void *set) {
    (void)set;
    Rule *fail = in_force('f', gpu, XIDS);
    if (fail && fail->value) return (int)fail->value;
    gpu->watched = (types & XID_EVENT) != 0;
    return OK;
}
int nvmlEventSetWait_v2(void *set, Event *out, unsigned timeout) {
    (void)set, (void)timeout;
    for (int i = 0; i < gpu_count; i++) /* a set with a lost GPU in it tells nothing any more */
        if (gpus[i].watched && in_force('f', &gpus[i], ALL) && in_force('f', &gpus[i], ALL)->value)
            return (int)in_force('f', &gpus[i], ALL)->value;
    for (int i = 0; i < rule_count; i++) {
        Rule *rule = &rules[i];
        if (rule->kind != 'x' || rule->done || !gpus[rule->gpu].watched) continue;
        if (gpus[rule->gpu].reading < rule->from) continue;
        rule->done = 1;
        *out = (Event){&gpus[rule->gpu], XID_EVENT, rule->value, ~0u, ~0u};
        return OK;
    }
    return TIMEOUT;
}
