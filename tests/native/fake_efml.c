/* A libefml of two cards for the tests: the exact ABI of both of its APIs, doing what its control file says.
 * -DWITHOUT_NATIVE or -DWITHOUT_SHAPED leaves one API out, as older and newer libraries do. */
#include "fake_control.h"

#define TEXT_BYTES 128
#define GIB (1ULL << 30)

#ifndef WITHOUT_NATIVE

typedef struct {
    char name[TEXT_BYTES];
    uint32_t vendor_id, device_id, domain_id, bus_id, dev_id, func_id, logic_id;
} info_t;
typedef struct { uint64_t mem_total_size; uint32_t mem_used; } memory_t;
typedef struct { uint32_t pid; uint64_t dev_mem_usage, sys_mem_usage; } process_t;
typedef struct { float asic, mem, board; } thermal_t;
typedef struct { float capability, current; } power_t;
typedef struct { bool enabled, pending, pdblack; uint32_t ecnt_sb, ecnt_db; } ecc_t;
typedef struct { uint32_t event_id; int event_type; char event_msg[TEXT_BYTES]; } event_t;

#define GATE(card)                                    \
    do {                                              \
        int code = gate(__func__, (int)(card));       \
        if (code) return code;                        \
        if ((int)(card) >= card_total()) return 2;    \
    } while (0)

int EfmlInit(bool no_driver) { (void)no_driver; GATE(NO_CARD); return 0; }

void EfmlShutdown(void) { gate(__func__, NO_CARD); }

int EfmlErrorString(int code, char *text) { snprintf(text, TEXT_BYTES, "the library's words for %d", code); return 0; }

int EfmlGetDriverVer(char *text) { GATE(NO_CARD); strcpy(text, "1.2.3.4"); return 0; }

int EfmlGetDevCount(uint32_t *count) { GATE(NO_CARD); *count = (uint32_t)card_total(); return 0; }

int EfmlGetDevInfo(uint32_t card, info_t *info) {
    GATE(card);
    memset(info, 0, sizeof *info);
    text_setting("name", (int)card, "Enflame S60", info->name, sizeof info->name);
    info->vendor_id = 0x1e36;
    info->device_id = 0xc035;
    info->domain_id = 0;
    info->bus_id = 0x10 + card;
    info->logic_id = (uint32_t)number_setting("logic_id", (int)card, (long long)card);
    return 0;
}

int EfmlGetDevMem(uint32_t card, memory_t *memory) {
    GATE(card);
    memory->mem_total_size = (uint64_t)number_setting("memory", (int)card, 32 * GIB);
    memory->mem_used = 1024 * (card + 1);
    return 0;
}

int EfmlGetDevUuid(uint32_t card, char *text) {
    char otherwise[32];
    GATE(card);
    snprintf(otherwise, sizeof otherwise, "GCU-UUID-%04u", card);
    text_setting("uuid", (int)card, otherwise, text, TEXT_BYTES);
    if (number_setting("raw_uuid", (int)card, 0)) memset(text, 0xA0 + (int)card, 16);
    return 0;
}

int EfmlGetDevSn(uint32_t card, char *text) { GATE(card); snprintf(text, TEXT_BYTES, "SN%04u", card); return 0; }

int EfmlGetDevIsHealth(uint32_t card, bool *healthy) {
    GATE(card);
    *healthy = number_setting("healthy", (int)card, 1) != 0;
    return 0;
}

int EfmlGetDevHealth(uint32_t card, bool *healthy) {
    GATE(card);
    *healthy = number_setting("healthy", (int)card, 1) != 0;
    return 0;
}

int EfmlGetProcessInfo(uint32_t card, uint32_t *count, process_t *processes) {
    GATE(card);
    processes[0].pid = 100 + card;
    processes[0].dev_mem_usage = GIB;
    processes[0].sys_mem_usage = 1;
    processes[1].pid = 200 + card;
    processes[1].dev_mem_usage = 2 * GIB;
    *count = 2;
    return 0;
}

int EfmlGetDevDtuUsage(uint32_t card, float *percent) { GATE(card); *percent = 12.5f; return 0; }

int EfmlGetDevTempV2(uint32_t card, thermal_t *thermal) {
    GATE(card);
    thermal->asic = 41.5f + (float)card;
    thermal->mem = 55.0f;
    thermal->board = 30.0f;
    return 0;
}

int EfmlGetDevPwr(uint32_t card, power_t *power) { GATE(card); power->capability = 300; power->current = 75; return 0; }

int EfmlGetDevEccStatus(uint32_t card, ecc_t *ecc) {
    GATE(card);
    memset(ecc, 0, sizeof *ecc);
    ecc->enabled = number_setting("ecc", (int)card, 1) != 0;
    ecc->ecnt_sb = 3;
    return 0;
}

int EfmlGetEvent(int timeout_ms, event_t *event) {
    struct fake_event next;
    GATE(NO_CARD);
    if (!next_event(timeout_ms, &next)) return 253;
    event->event_id = (uint32_t)next.card;
    event->event_type = next.type;
    snprintf(event->event_msg, TEXT_BYTES, "%s", next.data);
    return 0;
}

#undef GATE
#endif

#ifndef WITHOUT_SHAPED

typedef struct fake_device *device_t;
typedef struct { unsigned long long total, free, used; } shaped_memory_t;
typedef struct {
    unsigned int domain, bus, device, function, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} shaped_pci_t;
typedef struct { unsigned int gcu, memory; } shaped_utilization_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gcu_instance, compute_instance; } shaped_process_t;

static int card_of(device_t device) { return (int)(intptr_t)device - 1; }

#define SHAPED_GATE(card)                              \
    do {                                               \
        int code = gate(__func__, (int)(card));        \
        if (code) return code;                         \
        if ((int)(card) >= card_total()) return 2;     \
    } while (0)

int efmlInit(void) { SHAPED_GATE(NO_CARD); return 0; }
int efmlInit_v2(void) { SHAPED_GATE(NO_CARD); return 0; }
int efmlShutdown(void) { SHAPED_GATE(NO_CARD); return 0; }

const char *efmlErrorString(int code) { return code == 15 ? "GCU is lost" : "some error"; }

int efmlSystemGetDriverVersion(char *text, unsigned int size) {
    SHAPED_GATE(NO_CARD);
    snprintf(text, size, "1.9.0");
    return 0;
}

int efmlDeviceGetCount_v2(unsigned int *count) { SHAPED_GATE(NO_CARD); *count = (unsigned int)card_total(); return 0; }

int efmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    SHAPED_GATE(index);
    *device = (device_t)(intptr_t)(index + 1);
    return 0;
}

int efmlDeviceGetName(device_t device, char *text, unsigned int size) {
    SHAPED_GATE(card_of(device));
    snprintf(text, size, "Enflame L600");
    return 0;
}

int efmlDeviceGetUUID(device_t device, char *text, unsigned int size) {
    char otherwise[32];
    SHAPED_GATE(card_of(device));
    snprintf(otherwise, sizeof otherwise, "GCU-UUID-%04d", card_of(device));
    text_setting("uuid", card_of(device), otherwise, text, size);
    return 0;
}

int efmlDeviceGetSerial(device_t device, char *text, unsigned int size) {
    SHAPED_GATE(card_of(device));
    snprintf(text, size, "SN%04d", card_of(device));
    return 0;
}

int efmlDeviceGetPciInfo_v3(device_t device, shaped_pci_t *pci) {
    SHAPED_GATE(card_of(device));
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned int)card_of(device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "0000:%02x:00.0", pci->bus);
    return 0;
}

int efmlDeviceGetMemoryInfo(device_t device, shaped_memory_t *memory) {
    SHAPED_GATE(card_of(device));
    memory->total = (unsigned long long)number_setting("memory", card_of(device), 32 * GIB);
    memory->used = GIB * (unsigned long long)(card_of(device) + 1);
    memory->free = memory->total - memory->used;
    return 0;
}

int efmlDeviceGetTemperature(device_t device, int sensor, int *celsius) {
    SHAPED_GATE(card_of(device));
    (void)sensor;
    *celsius = 41;
    return 0;
}

int efmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts) {
    SHAPED_GATE(card_of(device));
    *milliwatts = 75500;
    return 0;
}

int efmlDeviceGetUtilizationRates(device_t device, shaped_utilization_t *utilization) {
    SHAPED_GATE(card_of(device));
    utilization->gcu = 12;
    utilization->memory = 34;
    return 0;
}

int efmlDeviceGetFanSpeed(device_t device, unsigned int *percent) {
    SHAPED_GATE(card_of(device));
    *percent = 45;
    return 0;
}

int efmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned int *count, shaped_process_t *processes) {
    SHAPED_GATE(card_of(device));
    processes[0].pid = 100 + (unsigned int)card_of(device);
    processes[0].used = GIB;
    *count = 1;
    return 0;
}

int efmlDeviceGetMigMode(device_t device, unsigned int *current, unsigned int *pending) {
    SHAPED_GATE(card_of(device));
    *current = *pending = (unsigned int)number_setting("mig", card_of(device), 0);
    return 0;
}

#endif
