// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestControlPlaneKilled kills the API server, its store or both while endpoints, ports
// and Services change, and starts them again. No reply is wrong at any time, and the last
// state is reached.
func TestControlPlaneKilled(t *testing.T) {
	c := apiserver.Start(t)
	api := kubernetes.NewForConfigOrDie(c.Config())
	registers := []*register{newHeadless(api, "db", 3), newPorts(api, "web", "10.96.0.77"), newFleeting(api, "gone")}
	create(t, api, registers...)
	kubeconfig := must.Get(c.Kubeconfig(c.Address(), ""))(t)
	s := startReady(t, kubeconfig)
	load := askAll(t, s.address, registers...)
	for _, victims := range [][]*process.Process{{c.API}, {c.Etcd}, {c.API, c.Etcd}} {
		load.write()
		load.more(20, 100)
		for _, v := range victims {
			v.Kill()
		}
		load.more(0, 300)
		for _, v := range victims {
			must.Succeed(t, v.Start())
		}
		must.Succeed(t, c.Ready(t.Context()))
		load.more(20, 100)
		load.catchUp()
	}
	load.report()
}
