// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
)

// baseObjects are the keys of dnsfaults.Healthy that a real cluster does not make of others.
var baseObjects = []string{
	"Namespace dnsconfigurer", "ConfigMap kube-system/kubelet-config", "ConfigMap kube-system/coredns",
	"Service shop/web", "Pod shop/web-1", "Service shop/db", "Pod shop/db-0", "Service shop/payments", "NetworkPolicy shop/egress",
	"Service dnsconfigurer/dnsconfigurer-webhook", "EndpointSlice dnsconfigurer/webhook-1",
	"ValidatingWebhookConfiguration dnsconfigurer",
}

// createBase creates the objects that the faults change.
func (f *faultTest) createBase(t *testing.T) {
	t.Helper()
	objects, order, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	f.base = objects
	for _, key := range order {
		if slices.Contains(baseObjects, key) {
			f.objects.create(t, objects[key])
		}
	}
	for _, name := range []string{"pods", "workloads", "jobs"} { // those of the chart
		o := dnsfaults.Object{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
			"metadata": map[string]any{"name": "dnsconfigurer-" + name + "-errors"},
		}
		f.base[o.Key()] = o
	}
	f.wait(t, "condition=Ready", "pod/web-1", "pod/db-0")
	f.awaitHealthy(t)
}

func (f *faultTest) deleteBase(t *testing.T) {
	var list []dnsfaults.Object
	for _, key := range slices.Backward(baseObjects) {
		list = append(list, f.base[key])
	}
	f.objects.remove(t, list...)
}

// testObjects seeds the faults that are changes of objects.
func (f *faultTest) testObjects(t *testing.T) {
	faults, err := dnsfaults.LoadLive()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		if !isOfCoreDNS(fault) {
			takeBack := f.objects.apply(t, fault, f.base)
			f.find(t, fault)
			takeBack()
		}
	}
	f.awaitHealthy(t)
}

// testPodFaults edits the resolv.conf of pods that run, as programs in containers do. Each edit has a pod of its own:
// a pod gets a number of ephemeral containers.
func (f *faultTest) testPodFaults(t *testing.T) {
	const other = "192.0.2.77"
	for i, edit := range []struct {
		fault    dnsfaults.Fault
		old, new string
	}{
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod has another nameserver", Evidence: "nameservers: " + other,
		}, dnsIP, other},
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod lacks a search domain", Evidence: "search: shop.svc.cluster.local cluster.local",
		}, " svc.cluster.local ", " "},
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod lacks ndots", Evidence: "options of a new pod: ndots:5",
		}, "ndots:5", "edns0"},
	} {
		pod := fmt.Sprint("edited-", i)
		created := newPod(pod, corev1.PodSpec{})
		f.create(t, created)
		edit.fault.Finds, edit.fault.Object = []string{"pod-file"}, "Pod "+namespace+"/"+pod
		edit.fault.Flags = []string{"--pod", namespace + "/" + pod, "--ephemeral-container", repository + ":" + f.imageTag(t)}
		f.awaitHealthy(t, edit.fault.Flags...)
		text := f.exec(t, pod, "/bin/busybox", "cat", "/etc/resolv.conf")
		if !strings.Contains(text, edit.old) {
			t.Fatalf("no %q in %q", edit.old, text)
		}
		text = strings.Replace(text, edit.old, edit.new, 1)
		f.exec(t, pod, "/bin/busybox", "sh", "-c", `printf '%s\n' "$0" >/etc/resolv.conf`, text)
		f.find(t, edit.fault)
		f.objects.remove(t, objectOf(t, created))
	}
}

// testKubeletFaults starts the kubelet with other settings.
func (f *faultTest) testKubeletFaults(t *testing.T) {
	config, err := os.ReadFile(kubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	restart := func(text string) {
		t.Helper()
		writeFile(t, kubeletConfig, text)
		if err := errors.Join(f.kubelet.Stop(), f.kubelet.Start()); err != nil {
			t.Fatal(err)
		}
	}
	for _, setting := range []struct {
		fault dnsfaults.Fault
		value string
	}{
		{dnsfaults.Fault{
			Name: "the kubelet gives pods an address that no Service has", Finds: []string{"dns-service-address"},
			Evidence: "Node node1, clusterDNS: 10.96.0.99", Object: "Service kube-system/kube-dns",
		}, "clusterDNS: [10.96.0.99]"},
		{dnsfaults.Fault{
			Name: "the kubelet gives pods no cluster DNS", Finds: []string{"dns-service-address"},
			Evidence: "clusterDNS: []", Object: "Node " + nodeName,
		}, "clusterDNS: []"},
	} {
		setting.fault.Flags = []string{"--kubelets"}
		restart(strings.Replace(string(config), "clusterDNS: ["+dnsIP+"]", setting.value, 1))
		f.find(t, setting.fault)
	}
	restart(string(config))
	f.awaitHealthy(t)
}
