package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecipes runs each recipe of docs/recipes.md: its configuration, with the steps below it.
func TestRecipes(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "recipes.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	recipes := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		_, config, _ := strings.Cut(section, "\n```yaml\n")
		config, rest, _ := strings.Cut(config, "```\n")
		_, list, found := strings.Cut(rest, "\n```steps\n")
		if !found {
			continue
		}
		recipes++
		list, _, _ = strings.Cut(list, "```\n")
		steps := scenario(t, page, "#> "+strings.ReplaceAll(strings.TrimSpace(list), "\n", "\n#> "))
		t.Run(title, func(t *testing.T) {
			e := start(t, config, "store: memory\n")
			for i := range steps {
				if !e.run(&steps[i]) {
					t.Fatal(steps[i].text)
				}
			}
		})
	}
	if recipes < 5 {
		t.Errorf("the page has %d recipes with steps", recipes)
	}
}
