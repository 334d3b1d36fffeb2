/* A libnvidia-ml of two cards for the tests: the functions that pynvml looks up, doing what the control file says. */
#include "fake_control.h"
#include "fake_limits.h"

#define GIB (1ULL << 30)
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_TIMEOUT 10
#define RECOVERY_ACTION_FIELD 230

typedef struct fake_device *device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
typedef struct { unsigned int pid; unsigned long long timestamp; unsigned int sm, memory, encoder, decoder; } sample_t;
typedef struct {
    uint32_t field_id, scope_id;
    int64_t timestamp, latency_us;
    int value_type, result;
    union { double d; unsigned int ui; unsigned long long ull; } value;
} field_t;
typedef struct {
    device_t device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} event_t;

static device_t device_of(int card) { return (device_t)(intptr_t)(card + 1); }
static int card_of(device_t device) { return (int)(intptr_t)device - 1; }

#define GATE(card)                                                                \
    do {                                                                          \
        int code = gate(__func__, (int)(card));                                   \
        if (code) return code;                                                    \
        if ((int)(card) >= card_total()) return NVML_ERROR_INVALID_ARGUMENT;      \
    } while (0)

int nvmlInitWithFlags(unsigned int flags) { (void)flags; GATE(NO_CARD); return 0; }
int nvmlInit_v2(void) { GATE(NO_CARD); return 0; }
int nvmlShutdown(void) { GATE(NO_CARD); return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "the library's words"; }

int nvmlSystemGetDriverVersion(char *text, unsigned int size) {
    GATE(NO_CARD);
    snprintf(text, size, "550.54.15");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { GATE(NO_CARD); *count = (unsigned int)card_total(); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    GATE(index);
    *device = device_of((int)index);
    return 0;
}

int nvmlDeviceGetName(device_t device, char *text, unsigned int size) {
    GATE(card_of(device));
    snprintf(text, size, "NVIDIA Fake 80GB");
    return 0;
}

int nvmlDeviceGetUUID(device_t device, char *text, unsigned int size) {
    char otherwise[32];
    GATE(card_of(device));
    snprintf(otherwise, sizeof otherwise, "GPU-%08d", card_of(device));
    text_setting("uuid", card_of(device), otherwise, text, size);
    return 0;
}

int nvmlDeviceGetSerial(device_t device, char *text, unsigned int size) {
    GATE(card_of(device));
    snprintf(text, size, "SN%04d", card_of(device));
    return 0;
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned int *minor) {
    GATE(card_of(device));
    *minor = (unsigned int)number_setting("minor", card_of(device), card_of(device));
    return 0;
}

int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci) {
    GATE(card_of(device));
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3A + (unsigned int)card_of(device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

int nvmlDeviceGetMigMode(device_t device, unsigned int *current, unsigned int *pending) {
    GATE(card_of(device));
    *current = *pending = (unsigned int)number_setting("mig", card_of(device), 0);
    return 0;
}

int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    GATE(card_of(device));
    memory->total = (unsigned long long)number_setting("memory", card_of(device), 80 * GIB);
    memory->used = GIB * (unsigned long long)(card_of(device) + 1);
    memory->free = memory->total - memory->used;
    return 0;
}

/* Drivers from 510 on; "absent nvmlDeviceGetMemoryInfo_v2 * 13" for an older one. */
int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_v2_t *memory) {
    GATE(card_of(device));
    memory->total = (unsigned long long)number_setting("memory", card_of(device), 80 * GIB);
    memory->reserved = (unsigned long long)number_setting("reserved", card_of(device), 0);
    memory->used = GIB * (unsigned long long)(card_of(device) + 1);
    memory->free = memory->total - memory->used - memory->reserved;
    return 0;
}

int nvmlDeviceGetFieldValues(device_t device, int count, field_t *values) {
    GATE(card_of(device));
    for (int i = 0; i < count; i++) {
        values[i].result = values[i].field_id == RECOVERY_ACTION_FIELD ? 0 : 3;
        values[i].value.ui = (unsigned int)number_setting("recovery_action", card_of(device), 0);
    }
    return 0;
}

int nvmlDeviceGetRemappedRows(device_t device, unsigned int *corrected, unsigned int *uncorrected,
                              unsigned int *pending, unsigned int *failed) {
    GATE(card_of(device));
    *corrected = *uncorrected = *pending = 0;
    *failed = (unsigned int)number_setting("remap_failed", card_of(device), 0);
    return 0;
}

int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned int *celsius) {
    GATE(card_of(device));
    (void)sensor;
    *celsius = 43;
    return 0;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts) {
    GATE(card_of(device));
    *milliwatts = 123500;
    return 0;
}

int nvmlDeviceGetPowerManagementLimit(device_t device, unsigned int *milliwatts) {
    GATE(card_of(device));
    *milliwatts = 250000;
    return 0;
}

int nvmlDeviceGetPersistenceMode(device_t device, int *mode) {
    GATE(card_of(device));
    *mode = (int)number_setting("persistence", card_of(device), 1);
    return 0;
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    GATE(NO_CARD);
    *version = (int)number_setting("cuda", 0, 12040);
    return 0;
}

int nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int size) {
    GATE(NO_CARD);
    if (pid != 4242) return NVML_ERROR_NOT_FOUND;
    snprintf(name, size, "python3");
    return 0;
}

/* Two samples of process 4242 and one of a process that the card does not list; "set samples_until" is the newest. */
int nvmlDeviceGetProcessUtilization(device_t device, sample_t *samples, unsigned int *count, unsigned long long since) {
    unsigned int room = *count;
    unsigned long long until = (unsigned long long)number_setting("samples_until", card_of(device), 2000);
    GATE(card_of(device));
    if (since >= until) return NVML_ERROR_NOT_FOUND;
    *count = 3;
    if (room < 3 || !samples) return NVML_ERROR_INSUFFICIENT_SIZE;
    memset(samples, 0, 3 * sizeof *samples);
    samples[0] = (sample_t){.pid = 4242, .timestamp = until, .sm = 35};
    samples[1] = (sample_t){.pid = 4242, .timestamp = until - 1, .sm = 90};
    samples[2] = (sample_t){.pid = 999, .timestamp = until, .sm = 20};
    return 0;
}

int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *utilization) {
    GATE(card_of(device));
    utilization->gpu = 67;
    utilization->memory = 12;
    return 0;
}

int nvmlDeviceGetFanSpeed(device_t device, unsigned int *percent) {
    GATE(card_of(device));
    *percent = 31;
    return 0;
}

int nvmlDeviceGetPerformanceState(device_t device, int *state) {
    GATE(card_of(device));
    *state = (int)number_setting("performance_state", card_of(device), 8);
    return 0;
}

int nvmlDeviceGetComputeMode(device_t device, int *mode) {
    GATE(card_of(device));
    *mode = (int)number_setting("compute_mode", card_of(device), 0);
    return 0;
}

int nvmlDeviceGetEccMode(device_t device, int *current, int *pending) {
    GATE(card_of(device));
    *current = *pending = (int)number_setting("ecc", card_of(device), 1);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    unsigned int room = *count;
    GATE(card_of(device));
    *count = 1;
    if (room < 1 || !processes) return NVML_ERROR_INSUFFICIENT_SIZE;
    processes[0].pid = 4242;
    processes[0].used = 3 * GIB;
    return 0;
}

/* The other lists have a process each while "set mps_clients" or "set graphics" is 1; "set mps_pid" and
   "set graphics_pid" may make it one of the first list. */
static int list_one(int card, const char *present, const char *pid, int usual, unsigned int *count, process_t *processes) {
    unsigned int room = *count;
    *count = (unsigned int)number_setting(present, card, 0);
    if (*count == 0) return 0;
    if (room < 1 || !processes) return NVML_ERROR_INSUFFICIENT_SIZE;
    *count = 1;
    processes[0].pid = (unsigned int)number_setting(pid, card, usual);
    processes[0].used = 2 * GIB;
    return 0;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    GATE(card_of(device));
    return list_one(card_of(device), "mps_clients", "mps_pid", 5252, count, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    GATE(card_of(device));
    return list_one(card_of(device), "graphics", "graphics_pid", 6262, count, processes);
}

/* "set keeping 0 dmem|misc"; without it the driver is one from before such limits. */
int nvmlDeviceSetMemoryLimits_v1(device_t device, const set_limits_t *limits) {
    GATE(card_of(device));
    return set_limits(card_of(device), limits->group, limits->soft, limits->hard);
}

int nvmlDeviceGetMemoryLimits_v1(device_t device, get_limits_t *limits) {
    GATE(card_of(device));
    return get_limits(card_of(device), limits);
}

int nvmlEventSetCreate(void **set) { GATE(NO_CARD); *set = malloc(1); return 0; }
int nvmlEventSetFree(void *set) { free(set); return 0; }

int nvmlDeviceGetSupportedEventTypes(device_t device, unsigned long long *types) {
    GATE(card_of(device));
    *types = 0x1f;
    return 0;
}

int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, void *set) {
    GATE(card_of(device));
    (void)types;
    (void)set;
    return 0;
}

int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout_ms) {
    struct fake_event next;
    (void)set;
    GATE(NO_CARD);
    if (!next_event((int)timeout_ms, &next)) return NVML_ERROR_TIMEOUT;
    memset(event, 0, sizeof *event);
    event->device = device_of(next.card);
    event->type = (unsigned long long)next.type;
    event->data = strtoull(next.data, NULL, 0);
    return 0;
}

int nvmlDeviceGetP2PStatus(device_t a, device_t b, int capability, int *status) {
    GATE(card_of(a));
    (void)b;
    *status = capability == 2 && number_setting("nvlink", card_of(a), 0) ? 0 : 5;
    return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(device_t a, device_t b, int *level) {
    GATE(card_of(a));
    (void)b;
    *level = (int)number_setting("topology", card_of(a), 50);
    return 0;
}
