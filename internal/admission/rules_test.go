// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

func TestNew_Invalid(t *testing.T) {
	_, err := admission.New(policy.Node{ClusterDomain: "two words"}, nil)
	if node, ok := errors.AsType[*policy.NodeError](err); !ok || node.Field != "clusterDomain" {
		t.Errorf("an invalid cluster domain: %v", err)
	}
	if _, err := admission.New(policy.Node{}, &resolvconf.File{Err: fs.ErrNotExist}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing host file: %v", err)
	}
}

// TestCheck_NodeProblems: problems of the node are not findings of its pods; `config check`
// reports them.
func TestCheck_NodeProblems(t *testing.T) {
	for name, host := range map[string]string{
		"servers of the node only": "nameserver 127.0.0.53\nnameserver fe80::1%eth0\n",
		"a domain too long to use": "nameserver 192.0.2.53\nsearch " + strings.Repeat("a", 64) + ".example\n",
		"nothing":                  "",
	} {
		rules, err := admission.New(policy.Node{ResolvConf: "/etc/resolv.conf"}, new(resolvconf.Parse(host)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []policy.Policy{policy.Default, policy.ClusterFirst} {
			o := admission.Object{Kind: admission.KindPod, Name: "web", Pod: policy.Pod{Namespace: "shop", Name: "web", Policy: p}}
			if found := vectors.Check(t, rules, o); found != nil {
				t.Errorf("%s, %s: %+v", name, p, found)
			}
		}
	}
}

func TestCollisions(t *testing.T) {
	a62, a63 := strings.Repeat("a", 62), strings.Repeat("a", 63)
	pod := func(namespace, name string) admission.Object {
		return admission.Object{Kind: admission.KindPod, Name: name, Pod: policy.Pod{Namespace: namespace, Name: name}}
	}
	overridden, short, onHost := pod("shop", "b"), pod("shop", a63+"w"), pod("shop", a63+"v")
	overridden.Pod.HostnameOverride = new(a63 + "z")
	short.Pod.Hostname = "short"
	onHost.Pod.HostNetwork = true
	objects := []admission.Object{
		pod("shop", a63),        // fits
		pod("shop", a63+"x"),    // truncated to the first
		pod("other", a63+"y"),   // in another namespace
		pod("other", a63+"y"),   // the same name: the API server reports it
		pod("shop", a62+"-cut"), // truncated to 62
		overridden, short, onHost,
	}
	var got []string
	for i, found := range admission.Collisions(objects) {
		for _, f := range found {
			got = append(got, fmt.Sprintf("%d %s %s", i, f.Code, f.Field))
		}
	}
	if diff := cmp.Diff([]string{"1 hostname-collision metadata.name", "5 hostname-collision spec.hostnameOverride"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
