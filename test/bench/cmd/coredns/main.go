// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS as a cluster runs it: its own main function with the plugins
// of kubeadm's Corefile and autopath. Without the other plugins, which need the libraries
// of three clouds, a cold build is several times faster; the code that runs is the same.
package main

import (
	"reflect"

	"github.com/coredns/coredns/coremain"
	"github.com/coredns/coredns/plugin/autopath"
	"github.com/coredns/coredns/plugin/cache"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/kubernetes"
	"github.com/coredns/coredns/plugin/loadbalance"
	"github.com/coredns/coredns/plugin/ready"
)

// A plugin registers itself when it is linked, so one reference to each is enough.
var _ = []reflect.Type{
	reflect.TypeFor[autopath.AutoPath](),
	reflect.TypeFor[cache.Cache](),
	reflect.TypeFor[forward.Forward](),
	reflect.TypeFor[kubernetes.Kubernetes](),
	reflect.TypeFor[loadbalance.LoadBalance](),
	reflect.TypeFor[ready.Readiness](),
}

func main() { coremain.Run() }
