package chart

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pinned is an action at a full commit.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)

// rights are all jobs with the rights that they need. A job that is not here may read the repository.
var rights = map[string]map[string]string{
	"release.yaml publish": {"contents": "write", "packages": "write", "id-token": "write", "attestations": "write"},
}

// TestWorkflowsHaveTheLeastRights holds workflows to pin every action by its commit, and every job to the
// least rights. A job that may write
// does not check out the repository. Text of an event is never a part of a script.
func TestWorkflowsHaveTheLeastRights(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(files) < 2 {
		t.Fatalf("found the workflows %v (%v)", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s is not a workflow: %v", file, err)
		}
		if w.Permissions == nil || len(w.Permissions) > 0 || len(w.Jobs) == 0 {
			t.Errorf("%s: write permissions: {} at the top, and rights at each job; got %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			name := filepath.Base(file) + " " + name
			want := rights[name]
			writes := want != nil
			if !writes {
				want = map[string]string{"contents": "read"}
			}
			if !maps.Equal(job.Permissions, want) {
				t.Errorf("%s has the rights %v, not %v", name, job.Permissions, want)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s uses %s: pin it by the 40 digits of its commit", name, step.Uses)
				}
				if writes && strings.HasPrefix(step.Uses, "actions/checkout@") {
					t.Errorf("%s may write and checks out the repository: do that in a job that only reads", name)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s has an expression in a script: pass it in env", name)
				}
			}
		}
	}
}
