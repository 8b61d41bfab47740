// Objects of C++ that each thread has of its own: made where a thread first uses them, on whichever node, the same on all, and destroyed
// at its end, the last made first. `other` is defined in thread_objects_other.cpp. The word: what to do.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <vector>
#include <tombolo_migrate.h>
#include "check.h"

struct counted {
    int number;
    std::string text;
    counted();
    ~counted();
};
extern thread_local counted other;
extern thread_local int computed;
int made, destroyed, order;

static thread_local counted mine;
static thread_local std::vector<std::string> words{"one", "a much longer word than fits into it"};

static int last;

extern "C" {
TOMBOLO_MIGRATE(first_use)
int first_use(int of_other)
{
    words.push_back("three");
    return of_other ? other.number : mine.number;
}

TOMBOLO_MIGRATE(same)
int same(const counted *of_caller, const counted *other_of_caller)
{
    return &mine == of_caller && &other == other_of_caller && words.size() == 3 && words[1].size() > 30;
}

TOMBOLO_MIGRATE(ends)
void ends(void *with)
{
    std::printf("%d %d\n", mine.number, other.number);
    std::fflush(stdout);
    if (with) pthread_exit(with);
    std::exit(5);
}
}

static void *run(void *argument)
{
    tombolo_migrate(last);
    int before = first_use(0);
    tombolo_migrate(tombolo_node());
    EQUAL(mine.number, before);
    EQUAL(other.number, before + 1);
    EQUAL(words.size(), 3);
    EQUAL(computed, 42);
    tombolo_migrate(last);
    CHECK(same(&mine, &other));
    if (argument) ends(argument);
    return nullptr;
}

int main(int count, char **arguments)
{
    const char *word = count > 1 ? arguments[1] : "threads";
    last = tombolo_nodes() - 1;
    if (!std::strcmp(word, "threads")) {
        for (int turn = 0; turn < 4; turn++) {
            pthread_t thread;
            void *result;
            order = 0;
            EQUAL(pthread_create(&thread, nullptr, run, turn % 2 ? &made : nullptr), 0);
            EQUAL(pthread_join(thread, &result), 0);
            CHECK(result == (turn % 2 ? &made : nullptr));
            EQUAL(made, 2 * (turn + 1));
            EQUAL(destroyed, made);
            EQUAL(order, made * 100 + made - 1);
        }
    } else {
        run(nullptr);
        if (!std::strcmp(word, "exits")) ends(nullptr);
    }
    std::printf("%s: right\n", word);
}
