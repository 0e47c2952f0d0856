// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
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

// testPodFaults edits the resolv.conf of pods that run, as programs in containers do.
func (f *faultTest) testPodFaults(t *testing.T) {
	const pod, other = "edited", "192.0.2.77"
	created := podWithCat(pod)
	f.create(t, created)
	flags := []string{"--exec", "--pod", namespace + "/" + pod}
	text := f.exec(t, pod, "/bin/busybox", "cat", "/etc/resolv.conf")
	write := func(text string) {
		t.Helper()
		f.exec(t, pod, "/bin/busybox", "sh", "-c", `printf '%s\n' "$0" >/etc/resolv.conf`, text)
	}
	f.awaitHealthy(t, flags...)
	for _, edit := range []struct {
		fault    dnsfaults.Fault
		old, new string
	}{
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod has another nameserver", Finds: []string{"pod-file"},
			Evidence: "nameservers of container main: " + other,
		}, dnsIP, other},
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod lacks a search domain", Finds: []string{"pod-file"},
			Evidence: "search of container main: shop.svc.cluster.local cluster.local",
		}, " svc.cluster.local ", " "},
		{dnsfaults.Fault{
			Name: "the resolv.conf of a running pod lacks ndots", Finds: []string{"pod-file"},
			Evidence: "options of a new pod: ndots:5",
		}, "ndots:5", "edns0"},
	} {
		if !strings.Contains(text, edit.old) {
			t.Fatalf("no %q in %q", edit.old, text)
		}
		edit.fault.Object, edit.fault.Flags = "Pod "+namespace+"/"+pod, flags
		write(strings.Replace(text, edit.old, edit.new, 1))
		f.find(t, edit.fault)
		write(text)
		f.awaitHealthy(t, flags...)
	}
	f.objects.remove(t, objectOf(t, created))
}

// podWithCat returns a pod with the program cat, which the image has as a part of busybox only.
func podWithCat(name string) *corev1.Pod {
	p := newPod(name, corev1.PodSpec{})
	programs := corev1.VolumeMount{Name: "programs", MountPath: "/usr/local/bin"}
	p.Spec.Volumes = []corev1.Volume{{Name: programs.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.InitContainers = []corev1.Container{{
		Name: "cat", Image: nodetools.LibrariesImage, ImagePullPolicy: corev1.PullNever,
		Command:      []string{"/bin/busybox", "ln", "-s", "/bin/busybox", programs.MountPath + "/cat"},
		VolumeMounts: []corev1.VolumeMount{programs},
	}}
	p.Spec.Containers[0].VolumeMounts = p.Spec.InitContainers[0].VolumeMounts
	return p
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
