module examples

go 1.19

require tombolo v0.0.0

replace tombolo => ../../runtime/go
