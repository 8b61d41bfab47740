// What objects of C++ are to workers of other processes, on other processors: virtual functions, types at run time, exceptions, objects that
// are made before main and that end after it.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>
#include "check.h"
#include <omp.h>

enum { COUNT = 64 };

struct Shape {
    virtual ~Shape() = default;
    virtual long area() const = 0;
};

struct Square : Shape {
    long side;
    explicit Square(long side) : side(side) {}
    long area() const override { return side * side; }
};

struct Named {
    std::string name;
    virtual const std::string &called() const { return name; }
    virtual ~Named() = default;
};

struct Block : Square, virtual Named {
    explicit Block(long side) : Square(side) { name = "block " + std::to_string(side); }
    long area() const override { return 6 * Square::area(); }
};

// Its parts are in the heap before main begins.
struct Early {
    std::vector<long> numbers;
    std::map<std::string, long> names;
    Early() {
        for (long at = 0; at < COUNT; at++) numbers.push_back(at);
        names["early"] = 1;
    }
    ~Early() { std::printf("%zu names\n", names.size()); }
};

static Early early;
static std::unique_ptr<Shape> shapes[COUNT];

static std::vector<int> &in_function() {
    static std::vector<int> made(3, 7);
    return made;
}

static long refuse(long at) {
    if (at % 4 == 1) throw std::string("text");
    if (at % 4 == 2) throw std::out_of_range("number " + std::to_string(at));
    return at % 4 == 3 ? early.numbers.at(10 * COUNT + at) : 0;
}

int main() {
#pragma omp parallel for schedule(static, 1)
    for (long at = 0; at < COUNT; at++) {
        if (at % 2) shapes[at] = std::make_unique<Square>(at);
        else shapes[at] = std::make_unique<Block>(at);
    }
    long area = 0, blocks = 0, texts = 0, ranges = 0, names = 0;
#pragma omp parallel for schedule(static, 1) reduction(+ : area, blocks, texts, ranges, names)
    for (long at = 0; at < COUNT; at++) {
        // Made by another worker.
        Shape *shape = shapes[COUNT - 1 - at].get();
        area += shape->area();
        if (Named *named = dynamic_cast<Named *>(shape)) {
            CHECK(typeid(*shape) == typeid(Block));
            blocks++;
            names += named->called() == "block " + std::to_string(COUNT - 1 - at);
        }
        try {
            refuse(at);
        } catch (const std::string &text) {
            texts += text == "text";
        } catch (const std::exception &error) {
            ranges += dynamic_cast<const std::out_of_range *>(&error) != nullptr && std::string(error.what()).size() >= 8;
        }
#pragma omp critical
        {
            early.names["name " + std::to_string(at % 7)] += at;
            early.numbers.push_back(in_function()[at % 3]);
        }
    }
    long expected = 0;
    for (long at = 0; at < COUNT; at++) expected += at % 2 ? at * at : 6 * at * at;
    EQUAL(area, expected);
    EQUAL(blocks, COUNT / 2);
    EQUAL(names, COUNT / 2);
    EQUAL(texts, COUNT / 4);
    EQUAL(ranges, COUNT / 2);
    EQUAL(early.names.size(), 8);
    EQUAL(early.numbers.size(), 2 * COUNT);
    EQUAL(std::count(early.numbers.begin() + COUNT, early.numbers.end(), 7), COUNT);
#pragma omp parallel for schedule(dynamic)
    for (long at = 0; at < COUNT; at++) shapes[at].reset();
    puts("classes: right");
}
