/* How a test controls a fake library: a text file next to the shared object, named "<library>.control" and read
 * again at every call. One rule per line:
 *
 *   cards N                     how many cards there are (2 without this line)
 *   hang  FUNCTION CARD         never return          FUNCTION and CARD may be "*"
 *   crash FUNCTION CARD         raise SIGSEGV
 *   fail  FUNCTION CARD CODE    return CODE
 *   absent FUNCTION * CODE      the same as fail, for a function that "is not supported"
 *   set   WHAT CARD VALUE       a value that differs from the default (memory, uuid, healthy, ...)
 *   event SERIAL CARD TYPE DATA an event; each serial number is delivered once, in order
 */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 512
#define NO_CARD (-1)

static FILE *open_control(void) {
    Dl_info info;
    char path[4096];
    if (!dladdr((void *)open_control, &info)) return NULL;
    snprintf(path, sizeof path, "%s.control", info.dli_fname);
    return fopen(path, "r");
}

static bool names(const char *pattern, const char *function) {
    return strcmp(pattern, "*") == 0 || strcmp(pattern, function) == 0;
}

static bool numbers(const char *pattern, int card) {
    return strcmp(pattern, "*") == 0 || (card != NO_CARD && atoi(pattern) == card);
}

/* Carry out the rules for one call: hang, crash, or return the code to fail with (0: go on). */
static int gate(const char *function, int card) {
    FILE *control = open_control();
    char line[LINE_BYTES], rule[32], name[128], who[16];
    int code = 0, found = 0;
    while (control && fgets(line, sizeof line, control)) {
        code = 0;
        if (sscanf(line, "%31s %127s %15s %d", rule, name, who, &code) < 3) continue;
        if (!names(name, function) || !numbers(who, card)) continue;
        if (strcmp(rule, "hang") == 0) for (;;) pause();
        if (strcmp(rule, "crash") == 0) raise(SIGSEGV);
        if (strcmp(rule, "fail") == 0 || strcmp(rule, "absent") == 0) found = code;
    }
    if (control) fclose(control);
    return found;
}

/* Look a "set" value up; false leaves the default. */
static bool setting(const char *what, int card, char *value, size_t size) {
    FILE *control = open_control();
    char line[LINE_BYTES], name[128], who[16], text[256];
    bool found = false;
    while (control && fgets(line, sizeof line, control)) {
        if (sscanf(line, "set %127s %15s %255[^\n]", name, who, text) != 3) continue;
        if (strcmp(name, what) != 0 || !numbers(who, card)) continue;
        snprintf(value, size, "%s", strcmp(text, "\"\"") == 0 ? "" : text);
        found = true;
    }
    if (control) fclose(control);
    return found;
}

static long long number_setting(const char *what, int card, long long otherwise) {
    char text[64];
    return setting(what, card, text, sizeof text) ? strtoll(text, NULL, 0) : otherwise;
}

static void text_setting(const char *what, int card, const char *otherwise, char *out, size_t size) {
    if (!setting(what, card, out, size)) snprintf(out, size, "%s", otherwise);
}

static int card_total(void) {
    FILE *control = open_control();
    char line[LINE_BYTES];
    int total = 2;
    while (control && fgets(line, sizeof line, control)) sscanf(line, "cards %d", &total);
    if (control) fclose(control);
    return total;
}

struct fake_event {
    int serial, card, type;
    char data[128];
};

/* Wait for the next event that was not delivered yet; false after timeout_ms. */
static bool next_event(int timeout_ms, struct fake_event *event) {
    static int delivered = 0;
    const int step_ms = 5;
    for (int waited_ms = 0;; waited_ms += step_ms) {
        FILE *control = open_control();
        char line[LINE_BYTES];
        bool found = false;
        while (control && !found && fgets(line, sizeof line, control)) {
            found = sscanf(line, "event %d %d %d %127[^\n]", &event->serial, &event->card, &event->type,
                           event->data) == 4 && event->serial > delivered;
        }
        if (control) fclose(control);
        if (found) {
            delivered = event->serial;
            return true;
        }
        if (waited_ms >= timeout_ms) return false;
        usleep(step_ms * 1000);
    }
}

#endif
