// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestControlPlaneKilled kills the API server, its store or both while endpoints, ports
// and Services change, and starts them again. No reply is wrong at any time, and the last
// state is reached.
func TestControlPlaneKilled(t *testing.T) {
	c := apiserver.Start(t)
	api := newClient(t, c)
	registers := []*register{newHeadless(api, "db", 3), newPorts(api, "web", "10.96.0.77"), newFleeting(api, "gone")}
	create(t, api, registers...)
	kubeconfig, err := c.Kubeconfig(c.Address(), "")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, build(t), kubeconfig)
	s.start(t)
	eventually(t, "ready", s.ready)

	load := askAll(t, s.address, registers...)
	for _, fault := range []struct {
		name    string
		victims []*process.Process
	}{
		{"the API server", []*process.Process{c.API}},
		{"etcd", []*process.Process{c.Etcd}},
		{"both", []*process.Process{c.API, c.Etcd}},
	} {
		load.write()
		load.more(20, 100)
		for _, v := range fault.victims {
			v.Kill()
		}
		load.more(0, 300)
		back := time.Now()
		for _, v := range fault.victims {
			if err := v.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ready := time.Since(back)
		load.more(20, 100)
		took := load.catchUp()
		t.Logf("%s killed: ready %v after the start; %v after the last change it was served",
			fault.name, ready.Round(time.Millisecond), took.Round(time.Millisecond))
	}
	load.report()
}
