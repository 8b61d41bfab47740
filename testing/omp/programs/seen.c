/* Has threads in all states that a list of them shows, until each line of its input lets it go on. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tombolo_migrate.h>
#include <unistd.h>
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ends;

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void read_line(void) {
    char byte = 0;
    while (byte != '\n') EQUAL(read(0, &byte, 1), 1);
}

/* Reads where it is called. */
TOMBOLO_MIGRATE(reads_there)
void reads_there(const char *text) {
    say(text);
    read_line();
}

/* Has a processor where it is called. */
TOMBOLO_MIGRATE(spins_there)
long spins_there(void) {
    long turns = 0;
    while (!atomic_load(&ends)) turns++;
    return turns;
}

static void *waits(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *spins(void *argument) {
    EQUAL(tombolo_migrate(tombolo_nodes() - 1), 0);
    CHECK(spins_there() >= 0);
    return argument;
}

int main(void) {
    pthread_t waiting, spinning;
    pthread_mutex_lock(&lock);
    CHECK(pthread_create(&waiting, NULL, waits, NULL) == 0);
    CHECK(pthread_create(&spinning, NULL, spins, NULL) == 0);
    printf("handles %#lx %#lx %#lx\n", (unsigned long)pthread_self(), (unsigned long)waiting, (unsigned long)spinning);
    tombolo_migrate(tombolo_nodes() - 1);
    reads_there("away");
    tombolo_migrate(0);
    reads_there("back");
    atomic_store(&ends, 1);
    pthread_mutex_unlock(&lock);
    CHECK(pthread_join(waiting, NULL) == 0 && pthread_join(spinning, NULL) == 0);
    say("joined");
    read_line();
    return 0;
}
