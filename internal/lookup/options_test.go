// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func TestOptions_Parse(t *testing.T) {
	input := kube.Input{Paths: []string{"a"}, Namespace: "default"}
	valid := lookup.Options{Input: input, Pod: "shop/web", Library: "musl", Format: "text"}
	for _, tt := range []struct {
		change func(*lookup.Options)
		args   string
		server string
		want   string // the beginning of the error
	}{
		{func(*lookup.Options) {}, "db aaaa", "invalid AddrPort", ""},
		{func(o *lookup.Options) { o.Server = "10.96.0.10" }, "db AAAA", "10.96.0.10:53", ""},
		{func(o *lookup.Options) { o.Server = "[fd00::10]:5353" }, "db AAAA", "[fd00::10]:5353", ""},
		{func(o *lookup.Options) { o.Upstream = []string{"192.0.2.1"} }, "db AAAA", "invalid AddrPort", ""},
		{func(o *lookup.Options) { o.Input.Paths = nil }, "db aaaa", "invalid AddrPort", ""}, // in the cluster of kubectl
		{func(o *lookup.Options) { o.Context = "staging" }, "db", "", "--kubeconfig and -f: set one of them"},
		{func(o *lookup.Options) { o.Input.Paths, o.Pod, o.Compare = nil, "", true }, "db", "", "no pod: set --pod"},
		{func(o *lookup.Options) { o.Input.Namespace = "" }, "db", "", `--namespace "": want a DNS label such as shop`},
		{func(o *lookup.Options) { o.Pod = "" }, "db", "", "no pod: set --pod"},
		{func(*lookup.Options) {}, "db NONE", "", `unknown record type "NONE": want one such as A, AAAA, SRV or PTR`},
		{func(o *lookup.Options) { o.Server = "dns" }, "db", "", `--server "dns": want IP[:PORT]`},
		{func(o *lookup.Options) { o.Server, o.Complete = "::1", true }, "db", "", "--complete has no effect with --server"},
		{func(o *lookup.Options) { o.Server, o.Upstream = "::1", []string{"::2"} }, "db", "", "--upstream has no effect with --server"},
		{func(o *lookup.Options) { o.Upstream = []string{"dns"} }, "db", "", "--upstream: "},
	} {
		o := valid
		tt.change(&o)
		c, err := o.Parse(strings.Fields(tt.args))
		if tt.want != "" {
			if _, ok := errors.AsType[usage.Error](err); !ok || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want a usage.Error %q", err, tt.want)
			}
			continue
		}
		if err != nil || c.Question.Name != "db" || c.Question.Type != dns.TypeAAAA || c.Server.String() != tt.server ||
			len(c.Upstream) != len(o.Upstream) {
			t.Errorf("%+v, %v", c, err)
		}
	}
}
