// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func TestOptions_Parse(t *testing.T) {
	valid := Options{
		Config: Config{Scope: doctor.Scope{Namespace: "shop"}, ExternalName: "example.com", Timeout: time.Minute, MaxObjects: 1},
		Pod:    "shop/web", DNSServers: []string{"10.96.0.10", "[fd00::10]", "[fd00::10]:5353"},
	}
	c, err := valid.Parse()
	if err != nil || c.Scope.PodName != "web" || c.ExternalName != "example.com." || len(c.Servers) != 3 ||
		c.Servers[0].UDP.String() != "10.96.0.10:53" || c.Servers[1].TCP.String() != "[fd00::10]:53" || c.Servers[2].UDP.Port() != 5353 {
		t.Errorf("%+v, %v", c, err)
	}
	for want, change := range map[string]func(*Options){
		`--pod "web": want NAMESPACE/NAME`:                                  func(o *Options) { o.Pod = "web" },
		`--pod "/web": want NAMESPACE/NAME`:                                 func(o *Options) { o.Pod = "/web" },
		"--namespace: cannot be combined with a --pod of another namespace": func(o *Options) { o.Pod = "bank/web" },
		`--dns-server "dns": want IP[:PORT]`:                                func(o *Options) { o.DNSServers = []string{"dns"} },
		`--external-name: "a..b" `:                                          func(o *Options) { o.ExternalName = "a..b" },
		`--cluster-domain: "a..b" `:                                         func(o *Options) { o.ClusterDomain = "a..b" },
		"--timeout and --max-objects: must be positive":                     func(o *Options) { o.Timeout = 0 },
	} {
		o := valid
		change(&o)
		_, err := o.Parse()
		if _, ok := errors.AsType[usage.Error](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
