/* Memory limits of control groups, as a driver from 615 on keeps them.
 *
 * The state is in the groups' own folders, so that it goes with them and outlives a process that sets it:
 *
 *   dmem.max     one line "CARD SOFT HARD" per card; in the way "dmem" only a group that has this file can have a limit
 *   misc.limits  lines "CARD SOFT HARD BASE" of the way "misc"; BASE is what was in use when the limit was set first
 *   charges      one line "CARD BYTES" per allocation of the group's own processes; the tests' kernel writes it
 *
 * Each call that sets is written to "<library>.log": "NANOSECONDS CARD SOFT HARD CODE GROUP", time since the epoch.
 */
#ifndef FAKE_LIMITS_H
#define FAKE_LIMITS_H

#include "fake_control.h"
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#define NO_LIMIT UINT64_MAX
#define ERROR_INVALID 2
#define ERROR_UNSUPPORTED 3
#define ERROR_PERMISSION 4
#define ERROR_MISSING 6
#define ERROR_NO_FUNCTION 13
#define PATH_BYTES 4096

typedef struct { const char *group; unsigned long long soft, hard; } set_limits_t;
typedef struct { const char *group; unsigned long long soft, hard, used; } get_limits_t;
typedef struct { unsigned long long soft, hard, base; } kept_t;

static bool exists_in(const char *group, const char *name) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return access(path, F_OK) == 0;
}

/* What a group and all below it have allocated of a card. */
static unsigned long long charged(const char *group, int card) {
    char path[PATH_BYTES];
    unsigned long long sum = 0, bytes;
    int which;
    snprintf(path, sizeof path, "%s/charges", group);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%d %llu", &which, &bytes) == 2) sum += which == card ? bytes : 0;
    if (file) fclose(file);
    DIR *folder = opendir(group);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", group, entry->d_name);
        sum += charged(path, card);
    }
    if (folder) closedir(folder);
    return sum;
}

static bool read_kept(const char *group, const char *name, int card, kept_t *kept) {
    char path[PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    int which;
    kept_t each;
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        each.base = 0;
        if (sscanf(line, "%d %llu %llu %llu", &which, &each.soft, &each.hard, &each.base) < 3 || which != card) continue;
        *kept = each;
        found = true;
    }
    if (file) fclose(file);
    return found;
}

/* The last line of a card counts. */
static void write_kept(const char *group, const char *name, int card, kept_t kept) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "%d %llu %llu %llu\n", card, kept.soft, kept.hard, kept.base);
    fclose(file);
}

/* In the way "misc" only what was allocated after the first limit counts. */
static unsigned long long counted(const char *group, int card, unsigned long long base) {
    unsigned long long all = charged(group, card);
    return all > base ? all - base : 0;
}

static bool step_up(char *group) {
    char *slash = strrchr(group, '/');
    if (!slash || slash == group) return false;
    *slash = 0;
    return exists_in(group, "cgroup.controllers");
}

static int set_in_dmem(int card, const char *group, unsigned long long soft, unsigned long long hard) {
    kept_t kept = {0, NO_LIMIT, 0}, above;
    char ancestor[PATH_BYTES];
    if (!exists_in(group, "dmem.max")) return ERROR_MISSING;
    read_kept(group, "dmem.max", card, &kept);
    if (hard < charged(group, card)) return ERROR_INVALID;
    snprintf(ancestor, sizeof ancestor, "%s", group);
    while (step_up(ancestor) && exists_in(ancestor, "dmem.max")) {
        above = (kept_t){0, NO_LIMIT, 0};
        read_kept(ancestor, "dmem.max", card, &above);
        above.soft += soft - kept.soft;
        if (soft != kept.soft) write_kept(ancestor, "dmem.max", card, above);
    }
    write_kept(group, "dmem.max", card, (kept_t){soft, hard, 0});
    return 0;
}

static int set_in_misc(int card, const char *group, unsigned long long soft, unsigned long long hard) {
    kept_t kept = {0, NO_LIMIT, charged(group, card)};
    read_kept(group, "misc.limits", card, &kept);
    if (hard < counted(group, card, kept.base)) return ERROR_INVALID;
    write_kept(group, "misc.limits", card, (kept_t){soft, hard, kept.base});
    return 0;
}

static int set_checked(int card, const char *group, unsigned long long soft, unsigned long long hard) {
    char way[16];
    text_setting("keeping", card, "", way, sizeof way);
    if (!way[0]) return ERROR_NO_FUNCTION;
    if (number_setting("not_root", card, 0)) return ERROR_PERMISSION;
    if (number_setting("mig", card, 0)) return ERROR_UNSUPPORTED;
    if (!exists_in(group, "cgroup.controllers")) return ERROR_MISSING;
    if (!exists_in(group, "cgroup.type")) return ERROR_INVALID; /* only the root group has none */
    if (soft > hard) return ERROR_INVALID;
    return strcmp(way, "dmem") == 0 ? set_in_dmem(card, group, soft, hard) : set_in_misc(card, group, soft, hard);
}

static int set_limits(int card, const char *group, unsigned long long soft, unsigned long long hard) {
    Dl_info info;
    char path[PATH_BYTES];
    int code = set_checked(card, group, soft, hard);
    if (!dladdr((void *)set_limits, &info)) return code;
    snprintf(path, sizeof path, "%s.log", info.dli_fname);
    FILE *log = fopen(path, "a");
    if (log) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        fprintf(log, "%lld%09ld %d %llu %llu %d %s\n", (long long)now.tv_sec, now.tv_nsec, card, soft, hard, code, group);
        fclose(log);
    }
    return code;
}

static int get_limits(int card, get_limits_t *limits) {
    char way[16], group[PATH_BYTES];
    kept_t kept = {0, NO_LIMIT, 0};
    text_setting("keeping", card, "", way, sizeof way);
    if (!way[0]) return ERROR_NO_FUNCTION;
    if (!exists_in(limits->group, "cgroup.controllers")) return ERROR_MISSING;
    snprintf(group, sizeof group, "%s", limits->group);
    bool is_dmem = strcmp(way, "dmem") == 0;
    /* dmem: a group without files of its own has those of the next one upwards. misc: the next one with a limit. */
    while (is_dmem ? !exists_in(group, "dmem.max")
                   : !read_kept(group, "misc.limits", card, &kept) || kept.hard == NO_LIMIT) {
        if (!step_up(group)) return is_dmem ? ERROR_MISSING : ERROR_UNSUPPORTED;
    }
    if (is_dmem) read_kept(group, "dmem.max", card, &kept);
    limits->soft = kept.soft;
    limits->hard = kept.hard;
    limits->used = counted(group, card, kept.base);
    return 0;
}

#endif
