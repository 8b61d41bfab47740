package tombolo

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The header of C is read as text: there is no other list of the numbers that all languages share.
func TestStatusesHaveTheNumbersOfC(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	numbers := map[string]string{}
	for _, found := range regexp.MustCompile(`TOMBOLO_([A-Z_]+) = (\d+),`).FindAllStringSubmatch(read("../c/include/tombolo.h"), -1) {
		numbers[found[1]] = found[2]
	}
	own := regexp.MustCompile(`(?m)^\tErr(\w+)\s+Status = (\d+)`).FindAllStringSubmatch(read("errors.go"), -1)
	if len(own) < 20 {
		t.Fatalf("only %d statuses were found", len(own))
	}
	words := regexp.MustCompile(`[A-Z][a-z]*`)
	for _, found := range own {
		name := strings.ToUpper(strings.Join(words.FindAllString(found[1], -1), "_"))
		if numbers[name] != found[2] {
			t.Errorf("Err%s is %s, and TOMBOLO_%s is %q", found[1], found[2], name, numbers[name])
		}
	}
}
