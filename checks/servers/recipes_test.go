package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecipes runs each recipe of docs/recipes.md: its configuration, with the steps or the commands
// below it.
func TestRecipes(t *testing.T) {
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
			steps := scenario(t, page, "#> "+strings.ReplaceAll(strings.TrimSpace(all[1].text), "\n", "\n#> "))
			e := start(t, all[0].text, "store: memory\n")
			for i := range steps {
				if !e.run(&steps[i]) {
					t.Fatal(steps[i].text)
				}
			}
		})
	}
	if recipes < 7 {
		t.Errorf("the page has %d recipes", recipes)
	}
}
