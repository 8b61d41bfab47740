module tombolo

go 1.19
