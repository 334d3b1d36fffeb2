/* The container of the tests: says what it was given, then waits for TERM, or ends at once if it has an argument.
 * Static, so that its image is this file. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void finish(int number) {
    (void)number;
    _exit(0);
}

int main(int count, char **arguments) {
    (void)arguments;
    /* As the first process of its namespace it ignores TERM unless it says otherwise. */
    signal(SIGTERM, finish);
    for (char **each = environ; *each != NULL; each++)
        printf("ENV %s\n", *each);
    DIR *devices = opendir("/dev");
    if (devices != NULL) {
        for (struct dirent *entry; (entry = readdir(devices)) != NULL;)
            if (strncmp(entry->d_name, "gcu", 3) == 0)
                printf("DEV /dev/%s\n", entry->d_name);
        closedir(devices);
    }
    printf("READY\n");
    fflush(stdout);
    if (count > 1)
        return 0;
    for (;;)
        pause();
}
