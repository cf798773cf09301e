package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecipesDoWhatTheyPromise runs each recipe of docs/recipes.md: its configuration, with the steps or the commands
// below it.
func TestRecipesDoWhatTheyPromise(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "recipes.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	recipes := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		recipes++
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			all := blocks(t, "recipes.md", title)
			if last := all[len(all)-1]; last.language != "steps" {
				runCommands(t, all)
				return
			}
			if len(all) != 2 || all[0].language != "yaml" {
				t.Fatalf("the recipe has %d blocks, want a configuration and steps", len(all))
			}
			runSteps(t, page, all[0].text, all[1].text)
		})
	}
	if recipes < 7 {
		t.Errorf("the page has %d recipes", recipes)
	}
}

// runSteps runs the steps of a page against a server with the configuration above them.
func runSteps(t *testing.T, page, config, text string) {
	t.Helper()
	steps := scenario(t, page, "#> "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n#> "))
	e := start(t, config, "store: memory\n")
	for i := range steps {
		if !e.run(&steps[i]) {
			t.Fatalf("the step of %s does not hold: %s", page, steps[i].text)
		}
	}
}

// TestComingFrom runs each file of docs/gateways.md that admits what a limit of another program admits.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "gateways.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	for _, section := range strings.Split(string(text), "\n### From ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		limits++
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			all := fenced(rest)
			if len(all) != 3 || all[1].language != "yaml" || all[2].language != "steps" {
				t.Fatalf("the section has %d blocks, want a limit, a configuration and steps", len(all))
			}
			runSteps(t, page, all[1].text, all[2].text)
		})
	}
	if limits < 8 {
		t.Errorf("the page has %d limits", limits)
	}
}
