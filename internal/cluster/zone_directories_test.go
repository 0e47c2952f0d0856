// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func service(name, ip string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: %s}}\n", name, ip)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, errors.Join(os.WriteFile(path+".tmp", []byte(text), 0o600), os.Rename(path+".tmp", path)))
}

// TestDirectories_Changes changes files and polls after each change.
func TestDirectories_Changes(t *testing.T) {
	dir, later := t.TempDir(), filepath.Join(t.TempDir(), "later")
	must.Succeed(t, os.Mkdir(later, 0o700))
	z, log := newZone(t), new(strings.Builder)
	d := must.Get(NewDirectories(DirectoriesConfig{Zone: z, Domain: clusterLocal, Paths: []string{dir, later},
		Logger: slog.New(slog.NewTextHandler(log, nil))}))(t)
	want := func(step string, wants map[string]string) {
		t.Helper()
		d.watcher.Poll()
		for name, want := range wants {
			if got := lookup(t, z.Snapshot(), name+".default.svc"); got != want {
				t.Errorf("%s: %s is %s, want %s", step, name, got, want)
			}
		}
	}
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.json")
	write(t, a, service("web", "10.96.0.1"))
	write(t, filepath.Join(dir, "README.md"), "no manifest")
	write(t, filepath.Join(dir, ".a.yaml"), service("hidden", "10.96.0.9"))
	must.Succeed(t, os.Remove(later))
	want("a directory is removed before the first reading", map[string]string{"web": "unknown", "none": "unknown"})
	if first := `msg="cannot read manifests, keeping their previous names, if any" path=` + later; !strings.Contains(log.String(), first) {
		t.Errorf("the first reading logged:\n%s", log)
	}
	must.Succeed(t, os.Mkdir(later, 0o700))
	want("it is back", map[string]string{"web": "10.96.0.1", "none": "nxdomain", "hidden": "nxdomain"})
	write(t, b, service("web", "10.96.0.2")+"---\n"+service("api", "10.96.0.3"))
	want("the later file wins", map[string]string{"web": "10.96.0.2", "api": "10.96.0.3"})
	write(t, filepath.Join(later, "a.yaml"), service("web", "10.96.0.4"))
	want("the later directory wins", map[string]string{"web": "10.96.0.4"})
	before := z.Snapshot()
	want("no change", nil)
	if z.Snapshot() != before {
		t.Error("the zone has changed")
	}

	write(t, b, "kind: [")
	want("an invalid file", map[string]string{"api": "10.96.0.3"})
	want("which stays invalid", map[string]string{"api": "10.96.0.3"})
	write(t, b, service("api", "10.96.0.5")+"---\n{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {clusterIp: 1}}")
	want("an invalid object in it", map[string]string{"api": "10.96.0.3"})
	if n := strings.Count(log.String(), "path="+b); n != 2 || !strings.Contains(log.String(), b+":3:61: spec.clusterIp: unknown field") {
		t.Errorf("logged %d times:\n%s", n, log)
	}
	must.Succeed(t, os.Remove(b))
	want("a file is removed", map[string]string{"api": "nxdomain", "web": "10.96.0.4"})
	must.Succeed(t, os.RemoveAll(later))
	want("a directory is removed", map[string]string{"web": "10.96.0.4"})
}

func TestNewDirectories_Invalid(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, service("web", "10.96.0.1"))
	missing, below := filepath.Join(dir, "missing"), filepath.Join(file, "below")
	_, err := NewDirectories(DirectoriesConfig{Zone: newZone(t), Domain: clusterLocal, Paths: []string{missing, dir, file, below}})
	want := missing + ": no such directory; give a directory\n" + file +
		": not a directory; give a directory\n" + below + ": not a directory"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
