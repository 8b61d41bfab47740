// Exceptions of C++ and functions that run on other nodes. The first word says which case.
#include <exception>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string.h>
#include <string>
#include <tombolo_migrate.h>
#include "check.h"

static int last, destroyed;

// Its objects are counted, and say on which node they were made.
struct failure : std::runtime_error {
    int node;
    std::string where;
    explicit failure(const char *text) : std::runtime_error(text), node(tombolo_node()), where(40, 'w') { made++; }
    failure(const failure &other) : std::runtime_error(other), node(other.node), where(other.where) { made++; }
    ~failure() { made--; }
    static int made;
};
int failure::made;

struct local {
    ~local() { destroyed++; }
};

extern "C" {
void throws(int depth);
void throws_number(int number);
void uses(void);

/* Throws at the end of a chain of calls that changes the node with each. */
TOMBOLO_MIGRATE(throws)
void throws(int depth) {
    local here;
    if (depth == 0) throw failure("at the end of the chain");
    tombolo_migrate(tombolo_node() == last ? 0 : last);
    throws(depth - 1);
}

TOMBOLO_MIGRATE(throws_number)
void throws_number(int number) {
    throw number;
}

/* Thrown and caught within one call, also what it calls throws. */
TOMBOLO_MIGRATE(catches)
int catches(int depth) {
    local here;
    try {
        if (depth == 0) throw std::out_of_range("none left");
        return catches(depth - 1) + 1;
    } catch (const std::logic_error &error) {
        CHECK(!strcmp(error.what(), "none left"));
        CHECK(dynamic_cast<const std::out_of_range *>(&error));
        if (depth < 2) throw;
        return 100;
    }
}

/* Throws again what its caller handles. */
TOMBOLO_MIGRATE(again)
void again(void) {
    CHECK(std::current_exception());
    EQUAL(std::uncaught_exceptions(), 0);
    try {
        throw;
    } catch (const failure &error) {
        EQUAL(strlen(error.what()), 23);
        EQUAL(error.where.size(), 40);
    }
    throw;
}

TOMBOLO_MIGRATE(swallows)
int swallows(int expected) {
    EQUAL(std::uncaught_exceptions(), expected);
    try {
        throw failure("in between");
    } catch (const failure &) {
        return tombolo_node();
    }
}

TOMBOLO_MIGRATE(allocates)
void allocates(void) {
    throw std::bad_alloc();
}

TOMBOLO_MIGRATE(silent)
void silent(void) noexcept {
    throws_number(1);
}
}

/* Calls a function for another node while an exception is on its way. */
struct calls_at_end {
    int to;
    ~calls_at_end() {
        tombolo_migrate(to);
        EQUAL(swallows(1), to);
    }
};

static void at_end(int to) {
    calls_at_end calls{to};
    throw 5;
}

static void leaves(int from, int to) {
    for (int depth = 0; depth < 4; depth++) {
        destroyed = 0;
        tombolo_migrate(to);
        try {
            throws(depth);
            CHECK(!"returned");
        } catch (const std::exception &error) {
            CHECK(!strcmp(error.what(), "at the end of the chain"));
            auto *whole = dynamic_cast<const failure *>(&error);
            CHECK(whole);
            EQUAL(failure::made, 1);
            EQUAL(whole->node, depth % 2 ? from : to);
        }
        EQUAL(failure::made, 0);
        EQUAL(destroyed, depth + 1);
        EQUAL(std::uncaught_exceptions(), 0);
        CHECK(!std::current_exception());
    }
    tombolo_migrate(to);
    try {
        throws_number(41);
    } catch (int number) {
        EQUAL(number, 41);
    }
    try {
        allocates();
    } catch (const std::bad_alloc &) {
        destroyed = -1;
    }
    EQUAL(destroyed, -1);
}

static void held(int to) {
    tombolo_migrate(to);
    int handled = 0;
    try {
        try {
            throw failure("at the end of the chain");
        } catch (const failure &) {
            EQUAL(swallows(0), to);
            again();
        }
    } catch (const failure &error) {
        EQUAL(failure::made, 1);
        handled += error.where.size();
    }
    try {
        at_end(to);
    } catch (int number) {
        handled += number;
    }
    EQUAL(handled, 45);
    EQUAL(failure::made, 0);
    CHECK(!std::current_exception());
}

/* All of it on the node where it is called, to the other. */
extern "C" {
TOMBOLO_MIGRATE(all)
void all(int to) {
    int here = tombolo_node();
    tombolo_migrate(to);
    EQUAL(catches(5), 103);
    for (int round = 0; round < 20; round++) {
        leaves(here, to);
        held(to);
    }
    tombolo_migrate(here);
}
}

static void *thread(void *) {
    all(last);
    tombolo_migrate(last);
    all(0);
    return nullptr;
}

static void *throws_out(void *) {
    throw std::runtime_error("out of the thread");
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "all";
    last = tombolo_nodes() - 1;
    if (!strcmp(what, "all")) {
        thread(nullptr);
        pthread_t threads[3];
        for (auto &one : threads) EQUAL(pthread_create(&one, nullptr, [](void *) -> void * {
            for (int round = 0; round < 100; round++) {
                tombolo_migrate(round % 2 ? last : 0);
                try {
                    throws_number(round);
                } catch (int number) {
                    EQUAL(number, round);
                }
            }
            return nullptr;
        }, nullptr), 0);
        for (auto one : threads) EQUAL(pthread_join(one, nullptr), 0);
    } else if (!strcmp(what, "thread")) {
        pthread_t one;
        EQUAL(pthread_create(&one, nullptr, throws_out, nullptr), 0);
        pthread_join(one, nullptr);
    } else if (!strcmp(what, "nobody")) {
        tombolo_migrate(last);
        throws(0);
    } else if (!strcmp(what, "noexcept")) {
        tombolo_migrate(last);
        silent();
    }
    printf("%s: right on %d nodes\n", what, last + 1);
    return 0;
}
