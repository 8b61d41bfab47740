// What thread_objects.cpp uses of another source.
#include <cstdio>
#include <cstdlib>
#include <string>

struct counted {
    int number;
    std::string text;
    counted();
    ~counted();
};
extern int made, destroyed, order;

static int computes()
{
    return std::atoi("42");
}

thread_local counted other;
thread_local int computed = computes();

counted::counted() : number(++made), text("of a thread, and too long to be kept in place")
{
}

counted::~counted()
{
    if (text.size() < 30) std::abort();
    destroyed++;
    order = order * 100 + number;
    std::printf("destroyed %d\n", number);
}
