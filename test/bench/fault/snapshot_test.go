// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// TestOldSnapshot: a snapshot of an earlier state is not served if the API server replies
// within the wait.
func TestOldSnapshot(t *testing.T) {
	c := newScene(t)
	file := c.leave(t)
	c.change(t)
	s := c.server(t, "", snapshotAt(file))
	start := time.Now()
	s.start(t)
	for rcode := -1; rcode != dns.RcodeSuccess && time.Since(start) < patience; {
		if rcode, _ = s.rcode(c.db.questions[0]); rcode == dns.RcodeNameError {
			t.Fatal("NXDOMAIN")
		}
	}
	if err := c.serves(s, 1)(); err != nil {
		t.Fatal(err)
	}
	t.Logf("from the start of the process to the present state: %v", time.Since(start).Round(time.Millisecond))
	// A busy machine may need more than the 2 s of the wait for the lists.
	if err := logged(s, "serving names from the snapshot"); err == nil && time.Since(start) < 2*time.Second {
		t.Error("the snapshot was read")
	}
}

// TestUnusableSnapshot: a snapshot that is damaged or of another cluster is not
// served, and the log has the reason.
func TestUnusableSnapshot(t *testing.T) {
	c := newScene(t)
	file := c.leave(t)
	damaged, foreign := t.TempDir()+"/damaged", t.TempDir()+"/foreign"
	damage(t, file, damaged)
	move(t, file, foreign)

	// A server without the right to list must still know the cluster by its UID: this
	// user may only read namespaces.
	const limited = "namespaces-only"
	allow(t, c, limited)
	c.unusable(t, foreign, "is of another cluster", limited)
	own := c.server(t, limited, snapshotAt(file))
	own.start(t)
	eventually(t, "the cluster's own snapshot", c.serves(own, 0))
	own.Stop()

	c.API.Kill()
	c.unusable(t, damaged, "is incomplete or damaged", "")
}

// unusable starts a server with a snapshot that it must not serve, and waits for the
// reason in the log.
func (c *scene) unusable(t *testing.T, file, why, as string) {
	t.Helper()
	s := c.server(t, as, snapshotAt(file))
	s.start(t)
	eventually(t, why, func() error { return logged(s, why) })
	if rcode, m := s.rcode(c.db.questions[0]); rcode != dns.RcodeServerFailure {
		t.Errorf("with a snapshot that %s: %v", why, m)
	}
	s.Stop()
}

// damage copies a file with one bit changed.
func damage(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// move writes a snapshot of another cluster with a header that is otherwise that of from.
func move(t *testing.T, from, to string) {
	t.Helper()
	state, err := cluster.ReadSnapshot(from)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zone.New(zone.Config{Domain: state.Domain})
	if err != nil {
		t.Fatal(err)
	}
	state.Cluster = "4f7a5f0e-0000-0000-0000-000000000000"
	if err := cluster.WriteSnapshot(to, state.SnapshotHeader, z.Snapshot()); err != nil {
		t.Fatal(err)
	}
}

// allow gives a user the right to read namespaces.
func allow(t *testing.T, c *scene, user string) {
	t.Helper()
	rbac := newClient(t, c.Cluster).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}},
	}}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
