/* A stand-in for libnvidia-ml.so.1: the calls that the agent makes, with the struct layouts of nvml.h (as in pynvml).
 *
 * It is steered by the text file that FAKE_NVML names, read again whenever it has changed. A line is one of
 *
 *   gpus N                     number of GPUs (1)
 *   driver CODE                what nvmlInit returns, and from then on every call (0)
 *   count N                    GPUs that the driver lists (gpus); the last ones are not there
 *   gpm 0|1                    GPM is there (0)
 *   samples 0|1                nvmlDeviceGetSamples is there (1)
 *   unit N                     what one percent is in those samples (1)
 *   util INDEX PERCENT         both utilisation calls; GPM's SM activity is half of it, graphics as much
 *   mig INDEX SLICES:GB …      split in instances, all others are whole (an empty list: split, without an instance);
 *                              +SLICES:GB is one more compute instance of the GPU instance before
 *   slices N                   compute slices of a card (7)
 *   error INDEX CODE FUNCTION  what a call to the GPU returns; `*` for every function
 *   hang INDEX FUNCTION        the call never returns
 *   crash INDEX FUNCTION       the call ends the process
 *   energy INDEX SINCE_MS      the energy counter grows by 300 W from that instant on (0); in ms since 1970
 *   xid INDEX AT_MS CODE       an XID event at that instant
 *   process INDEX SLOT PID MB PERCENT   SLOT is the position of a MIG instance, or - for the whole card
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GPUS 16
#define SLOTS 8
#define RULES 64

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15 };

typedef struct { int gpu, slot; } Device;
typedef struct { int gpu, code; char kind, function[64]; } Rule;
typedef struct { int gpu, slot, pid, mb, percent; } Process;
typedef struct { int gpu, code; long long at; } Xid;

static struct {
    int gpus, count, driver, gpm, samples, unit, slices;
    int util[GPUS], split[GPUS], instances[GPUS], mig_slices[GPUS][SLOTS], mig_gb[GPUS][SLOTS], mig_owner[GPUS][SLOTS];
    long long energy_since[GPUS];
    Rule rules[RULES];
    Process processes[RULES];
    Xid xids[RULES];
    int rule_count, process_count, xid_count;
} state;
static Device devices[GPUS][SLOTS + 1];
static struct timespec read_at;
static off_t read_size = -1;

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void read_line(char *line) {
    int gpu, code, a, b, c, offset;
    long long at;
    char word[64], slot[8];
    if (sscanf(line, "gpus %d", &state.gpus) == 1) { state.count = state.gpus; return; }
    if (sscanf(line, "count %d", &state.count) == 1 || sscanf(line, "driver %d", &state.driver) == 1) return;
    if (sscanf(line, "gpm %d", &state.gpm) == 1 || sscanf(line, "samples %d", &state.samples) == 1) return;
    if (sscanf(line, "unit %d", &state.unit) == 1 || sscanf(line, "slices %d", &state.slices) == 1) return;
    if (sscanf(line, "util %d %d", &gpu, &a) == 2) { state.util[gpu] = a; return; }
    if (sscanf(line, "energy %d %lld", &gpu, &at) == 2) { state.energy_since[gpu] = at; return; }
    if (sscanf(line, "error %d %d %63s", &gpu, &code, word) == 3) {
        Rule *rule = &state.rules[state.rule_count++];
        *rule = (Rule){gpu, code, 'e', ""};
        strcpy(rule->function, word);
    } else if (sscanf(line, "hang %d %63s", &gpu, word) == 2 || sscanf(line, "crash %d %63s", &gpu, word) == 2) {
        Rule *rule = &state.rules[state.rule_count++];
        *rule = (Rule){gpu, 0, line[0], ""};
        strcpy(rule->function, word);
    } else if (sscanf(line, "xid %d %lld %d", &gpu, &at, &code) == 3) {
        state.xids[state.xid_count++] = (Xid){gpu, code, at};
    } else if (sscanf(line, "process %d %7s %d %d %d", &gpu, slot, &a, &b, &c) == 5) {
        state.processes[state.process_count++] = (Process){gpu, slot[0] == '-' ? -1 : atoi(slot), a, b, c};
    } else if (sscanf(line, "mig %d%n", &gpu, &offset) == 1) {
        state.split[gpu] = 1;
        char *rest = line + offset;
        while (sscanf(rest, " %d:%d%n", &a, &b, &offset) == 2) {
            int position = state.instances[gpu]++;
            int is_part = position > 0 && memchr(rest, '+', offset) != NULL;
            state.mig_owner[gpu][position] = is_part ? state.mig_owner[gpu][position - 1] : position;
            state.mig_slices[gpu][position] = a;
            state.mig_gb[gpu][position] = b;
            rest += offset;
        }
    }
}

static void look(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat file;
    if (!path || stat(path, &file)) return;
    if (file.st_size == read_size && !memcmp(&file.st_mtim, &read_at, sizeof read_at)) return;
    FILE *text = fopen(path, "r");
    if (!text) return;
    read_at = file.st_mtim;
    read_size = file.st_size;
    memset(&state, 0, sizeof state);
    state.gpus = state.count = 1;
    state.samples = state.unit = 1;
    state.slices = 7;
    for (int gpu = 0; gpu < GPUS; gpu++) state.util[gpu] = 80;
    char line[512];
    while (fgets(line, sizeof line, text)) read_line(line);
    fclose(text);
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (int slot = 0; slot <= SLOTS; slot++) devices[gpu][slot] = (Device){gpu, slot - 1};
}

static int rule_of(int gpu, const char *function) {
    look();
    if (state.driver) return state.driver;
    for (int position = 0; position < state.rule_count; position++) {
        Rule *rule = &state.rules[position];
        if (rule->gpu != gpu || (strcmp(rule->function, "*") && strcmp(rule->function, function))) continue;
        if (rule->kind == 'h') for (;;) pause();
        if (rule->kind == 'c') abort();
        return rule->code;
    }
    return OK;
}

#define BEGIN(device) do { int code = rule_of((device)->gpu, __func__); if (code) return code; } while (0)
#define WHOLE(device) do { if ((device)->slot >= 0) return INVALID; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; look(); return rule_of(-1, __func__); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "570.00.fake"); return rule_of(-1, __func__); }

int nvmlDeviceGetCount_v2(unsigned *count) { int code = rule_of(-1, __func__); *count = state.count; return code; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    int code = rule_of(index, __func__);
    if (code) return code;
    if ((int)index >= state.count) return INVALID;
    *device = &devices[index][0];
    return OK;
}
int nvmlDeviceGetUUID(Device *d, char *text, unsigned size) {
    BEGIN(d);
    if (d->slot < 0) snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", d->gpu);
    else snprintf(text, size, "MIG-%08d-%04d-0000-0000-%012d", d->gpu, state.mig_slices[d->gpu][d->slot], d->slot);
    return OK;
}
int nvmlDeviceGetName(Device *d, char *text, unsigned size) {
    BEGIN(d);
    if (d->slot < 0) snprintf(text, size, "NVIDIA H100 80GB HBM3");
    else snprintf(text, size, "NVIDIA H100 80GB HBM3 MIG %dg.%dgb", state.mig_slices[d->gpu][d->slot], state.mig_gb[d->gpu][d->slot]);
    return OK;
}
int nvmlDeviceGetSerial(Device *d, char *text, unsigned size) { BEGIN(d); snprintf(text, size, "16500000%02d", d->gpu); return OK; }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *d, Pci *pci) {
    BEGIN(d);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x10 + d->gpu);
    return OK;
}

int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *next) { BEGIN(d); *now = *next = state.split[d->gpu]; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *count) { BEGIN(d); *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **mig) {
    BEGIN(d);
    if ((int)index >= state.instances[d->gpu]) return NOT_FOUND;
    *mig = &devices[d->gpu][index + 1];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(Device *d, unsigned *id) { BEGIN(d); *id = 20 + (d->slot < 0 ? 0 : state.mig_owner[d->gpu][d->slot]); return d->slot < 0 ? NOT_SUPPORTED : OK; }

typedef struct { unsigned sm, ce, dec, enc, jpeg, ofa, gpu_slices, compute_slices; unsigned long long mb; } Attributes;
int nvmlDeviceGetAttributes_v2(Device *d, Attributes *a) {
    BEGIN(d);
    if (d->slot < 0) return NOT_SUPPORTED;
    memset(a, 0, sizeof *a);
    a->gpu_slices = a->compute_slices = state.mig_slices[d->gpu][d->slot];
    a->mb = state.mig_gb[d->gpu][d->slot] * 1024ULL;
    return OK;
}
typedef struct { unsigned id, p2p, slices, instances, sm, ce, dec, enc, jpeg, ofa; unsigned long long mb; } Profile;
int nvmlDeviceGetGpuInstanceProfileInfo(Device *d, unsigned profile, Profile *info) {
    BEGIN(d);
    if (profile != (state.slices == 7 ? 4u : 3u)) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->slices = state.slices;
    return OK;
}

static unsigned long long total_bytes(Device *d) { return (d->slot < 0 ? 80ULL : (unsigned long long)state.mig_gb[d->gpu][d->slot]) << 30; }
typedef struct { unsigned long long total, free, used; } Memory1;
int nvmlDeviceGetMemoryInfo(Device *d, Memory1 *m) { BEGIN(d); m->total = total_bytes(d); m->used = 5ULL << 30; m->free = m->total - m->used; return OK; }
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory2 *m) {
    BEGIN(d);
    if (m->version != 0x02000028) return 25;
    m->total = total_bytes(d); m->reserved = 1ULL << 30; m->used = 4ULL << 30; m->free = m->total - m->used - m->reserved;
    return OK;
}

typedef struct { unsigned gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(Device *d, Rates *r) {
    BEGIN(d); WHOLE(d);
    if (state.split[d->gpu]) return NOT_SUPPORTED;
    r->gpu = state.util[d->gpu]; r->memory = 10;
    return OK;
}
typedef union { double d; unsigned u; unsigned long ul; unsigned long long ull; } Value;
typedef struct { unsigned long long at; Value value; } Sample;
/* the driver's buffer: a sample every sixth of a second, 100 of them; half of them 10 above, half 10 below the utilisation */
int nvmlDeviceGetSamples(Device *d, int type, unsigned long long since, int *kind, unsigned *count, Sample *samples) {
    BEGIN(d); WHOLE(d);
    if (!state.samples || type != 1) return NOT_SUPPORTED;
    *kind = 1;
    if (!samples) { *count = 100; return OK; }
    unsigned long long last = now_us() / 166667 * 166667;
    unsigned found = 0;
    for (int position = 99; position >= 0; position--) {
        unsigned long long at = last - position * 166667ULL;
        if (at <= since) continue;
        int swing = state.util[d->gpu] >= 10 && state.util[d->gpu] <= 90 ? ((at / 166667) % 2 ? 10 : -10) : 0;
        samples[found].at = at;
        samples[found++].value.u = (state.util[d->gpu] + swing) * state.unit;
    }
    *count = found;
    return found ? OK : NOT_FOUND;
}
int nvmlDeviceGetPowerUsage(Device *d, unsigned *mw) { BEGIN(d); WHOLE(d); *mw = 300000 + (unsigned)(now_us() / 1000 % 997); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(Device *d, unsigned long long *mj) {
    BEGIN(d); WHOLE(d);
    *mj = (unsigned long long)(now_us() / 1000 - state.energy_since[d->gpu]) * 300;
    return OK;
}
int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *c) { (void)sensor; BEGIN(d); WHOLE(d); *c = 55 + d->gpu; return OK; }
int nvmlDeviceGetClockInfo(Device *d, int type, unsigned *mhz) { BEGIN(d); WHOLE(d); *mhz = type == 1 ? 1755 : 0; return OK; }
int nvmlDeviceGetMaxClockInfo(Device *d, int type, unsigned *mhz) { BEGIN(d); WHOLE(d); *mhz = type == 1 ? 1980 : 0; return OK; }
int nvmlDeviceGetApplicationsClock(Device *d, int type, unsigned *mhz) { (void)type; BEGIN(d); WHOLE(d); *mhz = 1900; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(Device *d, unsigned long long *reasons) { BEGIN(d); WHOLE(d); *reasons = 4; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *mw) { BEGIN(d); *mw = 700000; return OK; }

typedef struct { unsigned id, scope; long long at, latency; int type, code; Value value; } Field;
int nvmlDeviceGetFieldValues(Device *d, int count, Field *fields) {
    BEGIN(d);
    for (Field *f = fields; f < fields + count; f++) {
        unsigned long long ms = now_us() / 1000;
        f->type = 3;
        f->code = OK;
        if (f->id == 197 || f->id == 198) f->value.ull = ms * (f->id == 197 ? 2000 : 3000);       /* bytes */
        else if (f->id == 138 || f->id == 139) f->value.ull = f->scope == 0xFFFFFFFF ? ms * 2 : ms; /* KiB */
        else f->code = NOT_SUPPORTED;
    }
    return OK;
}

typedef struct { int gpu; long long since; unsigned seen; } EventSet;
typedef struct { Device *device; unsigned long long type, data; unsigned gi, ci; } Event;
int nvmlEventSetCreate(EventSet **set) { *set = calloc(1, sizeof **set); (*set)->gpu = -1; (*set)->since = now_us() / 1000; return OK; }
int nvmlEventSetFree(EventSet *set) { free(set); return OK; }
int nvmlDeviceRegisterEvents(Device *d, unsigned long long types, EventSet *set) { (void)types; BEGIN(d); set->gpu = d->gpu; return OK; }
int nvmlEventSetWait_v2(EventSet *set, Event *event, unsigned timeout) {
    (void)timeout;
    look();
    for (int position = set->seen; position < state.xid_count; position++) {
        Xid *xid = &state.xids[position];
        set->seen = position + 1;
        if (xid->gpu != set->gpu || xid->at < set->since) continue;
        *event = (Event){&devices[xid->gpu][0], 8, xid->code, 0, 0};
        return OK;
    }
    return TIMEOUT;
}

typedef struct { unsigned version, supported; } GpmSupport;
int nvmlGpmQueryDeviceSupport(Device *d, GpmSupport *support) { BEGIN(d); support->supported = state.gpm; return OK; }
typedef struct { long long at; int gpu, slot; } GpmSample;
int nvmlGpmSampleAlloc(GpmSample **sample) { *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(Device *d, GpmSample *sample) {
    BEGIN(d);
    if (!state.gpm || state.split[d->gpu]) return NOT_SUPPORTED;
    *sample = (GpmSample){now_us(), d->gpu, -1};
    return OK;
}
int nvmlGpmMigSampleGet(Device *d, unsigned instance, GpmSample *sample) {
    BEGIN(d);
    if (!state.gpm || !state.split[d->gpu]) return NOT_SUPPORTED;
    *sample = (GpmSample){now_us(), d->gpu, (int)instance - 20};
    return OK;
}
typedef struct { unsigned id; int code; double value; struct { char *shorter, *longer, *unit; } info; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;
int nvmlGpmMetricsGet(GpmMetrics *request) {
    GpmSample *first = request->first, *second = request->second;
    if (request->version != 1 || !first->at || first->at >= second->at || first->gpu != second->gpu || first->slot != second->slot)
        return INVALID;
    for (GpmMetric *m = request->metrics; m < request->metrics + request->count; m++) {
        int util = state.util[first->gpu];
        m->code = OK;
        switch (m->id) {
        case 1: m->value = util; break;
        case 2: m->value = util / 2.0; break;
        case 5: m->value = util / 4.0; break;
        case 10: m->value = util / 8.0; break;
        case 20: case 21: m->value = m->id == 20 ? 100 : 200; if (first->slot >= 0) m->code = NOT_SUPPORTED; break;
        case 60: case 61: m->value = 50; if (first->slot >= 0) m->code = NOT_SUPPORTED; break;
        default: m->code = NOT_SUPPORTED;
        }
    }
    return OK;
}

typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Running;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Running *found) {
    BEGIN(d);
    unsigned size = *count;
    *count = 0;
    for (int position = 0; position < state.process_count; position++) {
        Process *p = &state.processes[position];
        if (p->gpu != d->gpu || p->slot != d->slot) continue;
        if (found && *count < size) found[*count] = (Running){p->pid, (unsigned long long)p->mb << 20, -1u, -1u};
        ++*count;
    }
    return *count > size ? SMALL : OK;
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *d, unsigned *count, Running *found) { (void)found; BEGIN(d); *count = 0; return OK; }
typedef struct { unsigned pid; unsigned long long at; unsigned sm, memory, enc, dec; } ProcessSample;
int nvmlDeviceGetProcessUtilization(Device *d, ProcessSample *found, unsigned *count, unsigned long long since) {
    (void)since;
    BEGIN(d); WHOLE(d);
    unsigned size = *count;
    *count = 0;
    for (int position = 0; position < state.process_count; position++) {
        Process *p = &state.processes[position];
        if (p->gpu != d->gpu) continue;
        if (found && *count < size) found[*count] = (ProcessSample){p->pid, now_us(), p->percent, 0, 0, 0};
        ++*count;
    }
    return *count == 0 ? NOT_FOUND : *count > size || !found ? SMALL : OK;
}
