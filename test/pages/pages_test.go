// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# Page

Text
    that goes on.

    kubectl get pods

      more

## Section

1. Do this:

   <!-- not run: a reason -->

       $ helm list
       none

<!-- a note -->
Text.

` + "```yaml\na:\n  b: 1\n```" + `

    end of the page`

func TestParse(t *testing.T) {
	want := []Block{
		{"p.md", 6, "Page", "", "kubectl get pods\n\n  more\n"},
		{"p.md", 16, "Section", "not run: a reason", "$ helm list\nnone\n"},
		{"p.md", 23, "Section", "", "a:\n  b: 1\n"},
		{"p.md", 27, "Section", "", "end of the page\n"},
	}
	got := Parse("p.md", page)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if !got[0].IsCommands() || got[1].IsCommands() || got[2].IsCommands() || got[3].IsCommands() {
		t.Error("only the first block is commands")
	}
	if command, output := got[1].Example(); command != "helm list" || output != "none\n" {
		t.Errorf("the example is %q with the output %q", command, output)
	}
}

func TestParse_Open(t *testing.T) {
	for text, want := range map[string]int{"": 0, "```": 1, "```\nopen": 1, "    open": 1, "\n    ": 0} {
		if got := Parse("p.md", text); len(got) != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
