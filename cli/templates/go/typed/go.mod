module example.com/@name@

go 1.19

require tombolo v0.0.0

replace tombolo => "@rust@/runtime/go"
