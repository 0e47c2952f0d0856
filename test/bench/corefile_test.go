// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestCorefile_Cache checks that the table of docs/dns.md says what becomes of each argument of
// CoreDNS's plugin cache, as its parser has them: a user who migrates must not lose one unseen.
func TestCorefile_Cache(t *testing.T) {
	dir := must.Get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns").Output())(t)
	plugin := must.Get(os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "plugin/cache/setup.go")))(t)
	page := must.Get(os.ReadFile("../../docs/dns.md"))(t)
	_, table, _ := strings.Cut(string(page), "\n### Corefile and configuration\n")
	table, _, _ = strings.Cut(table, "\n## ")
	arguments := []string{"cache TTL ZONES"}
	for _, m := range regexp.MustCompile(`(?m)^\t\t\tcase "?(\w+)"?:$`).FindAllStringSubmatch(string(plugin), -1) {
		arguments = append(arguments, strings.ToLower(m[1]))
	}
	if len(arguments) < 9 {
		t.Errorf("the parser has only %q", arguments)
	}
	for _, argument := range arguments {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + argument + "`[^|]* \\|").MatchString(table) {
			t.Errorf("the table has no row for %q", argument)
		}
	}
}
