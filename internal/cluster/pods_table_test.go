// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestTable_Memory measures the memory of a pod. Names have a realistic length, and one pod
// in ten has a dnsConfig.
func TestTable_Memory(t *testing.T) {
	const pods, limit = 10000, 512
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	table := newTable()
	before := heap()
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%02d", i%100), Name: fmt.Sprintf("checkout-frontend-7c9d8f6b5-%05d", i),
				UID: types.UID(fmt.Sprintf("0a1b2c3d-4e5f-6789-abcd-%012d", i)),
			},
			Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, NodeName: "node", Containers: make([]corev1.Container, 3)},
		}
		if i%10 == 0 {
			value := fmt.Sprint(i % 5)
			pod.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &value}}}
		}
		must.Succeed(t, table.Add(pod))
	}
	each := (heap() - before) / pods
	t.Logf("%d bytes a pod", each)
	if each > limit {
		t.Errorf("%d bytes a pod, want at most %d", each, limit)
	}
	runtime.KeepAlive(table)
}

// TestTable_UnexpectedObject: the API server sends other objects than pods.
func TestTable_UnexpectedObject(t *testing.T) {
	table := newTable()
	if table.Add(&corev1.Node{}) == nil || table.Delete(&corev1.Node{}) == nil ||
		table.Replace([]any{&corev1.Node{}}, "1") == nil || table.isSynced() {
		t.Error("accepted")
	}
}

// TestTable_MirrorReplaced: the deletion of a mirror pod arrives after the addition of its
// successor.
func TestTable_MirrorReplaced(t *testing.T) {
	mirror := func(uid types.UID, static string) *corev1.Pod {
		annotations := map[string]string{corev1.MirrorPodAnnotationKey: static}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: uid, Annotations: annotations}}
	}
	table := newTable()
	must.Succeed(t, errors.Join(table.Add(mirror("u1", "h1")), table.Add(mirror("u2", "h2")), table.Delete(mirror("u1", "h1"))))
	ref := Ref{Namespace: "ns", Name: "n", UID: "h2", Annotations: map[string]string{"kubernetes.io/config.source": "http"}}
	if a, ok := table.get(ref); !ok || a.UID != "h2" {
		t.Errorf("got %+v", a)
	}
	if err := table.Delete(mirror("u2", "h2")); err != nil || len(table.pods)+len(table.mirrors) > 0 {
		t.Errorf("left %v, %v, %v", table.pods, table.mirrors, err)
	}
}

// TestTable_LargePods adds 100 pods with 100,000 options each, and changes small pods to large
// ones and back.
func TestTable_LargePods(t *testing.T) {
	table := newTable()
	pod := func(i, options int) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("u", i))}}
		p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: make([]corev1.PodDNSConfigOption, options)}
		return p
	}
	for i := range 100 {
		must.Succeed(t, errors.Join(table.Add(pod(i, 1)), table.Update(pod(i, 100_000))))
	}
	for i := range 100 {
		uid := fmt.Sprint("u", i)
		if r := table.pods[uid]; !r.large || r.pod.Config != nil {
			t.Errorf("%s is kept: %+v", uid, r)
		}
	}
	for i, options := range []int{maxConfig / 32, maxConfig/32 + 1} { // on both sides of the limit
		if err := table.Update(pod(i, options)); err != nil || table.isLarge(fmt.Sprint("u", i)) != (i == 1) {
			t.Errorf("%d options: large %t, %v", options, table.isLarge(fmt.Sprint("u", i)), err)
		}
	}
	labeled := pod(0, 1)
	labeled.Labels = map[string]string{}
	for i := range 100 {
		labeled.Labels[fmt.Sprint(i)] = strings.Repeat("v", 63)
	}
	if err := table.Update(labeled); err != nil || table.isLarge("u0") {
		t.Errorf("100 labels: large %t, %v", table.isLarge("u0"), err)
	}
	for i := range 200 {
		labeled.Labels[fmt.Sprint(i)] = strings.Repeat("v", 63)
	}
	if err := table.Update(labeled); err != nil || !table.isLarge("u0") {
		t.Errorf("200 labels: large %t, %v", table.isLarge("u0"), err)
	}
	for i := range 100 {
		must.Succeed(t, table.Delete(pod(i, 1)))
	}
	if len(table.pods) > 0 {
		t.Errorf("left %v", table.pods)
	}
}

func TestAnnotations(t *testing.T) {
	p := must.Get(NewPods(PodsConfig{NodeName: "node1"}))(t)
	var changed []string
	p.FollowAnnotations([]string{"a", "b"}, func(uid string) { changed = append(changed, uid) })
	pod := func(uid string, values map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: uid, UID: types.UID(uid), Annotations: values}}
	}
	steps := []struct {
		do      func() error
		changed string // "": none
		uid     string
		value   string // of a; "-": the pod is not known
	}{
		{func() error { return p.table.Add(pod("u", map[string]string{"a": "1", "c": "1"})) }, "", "u", "1"},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": "1", "c": "2"})) }, "", "u", "1"},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": "2"})) }, "u", "u", "2"},
		{func() error { return p.table.Update(pod("u", nil)) }, "u", "u", ""},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": strings.Repeat("x", 1000)})) },
			"u", "u", strings.Repeat("x", maxAnnotation)},
		{func() error { return p.table.Replace([]any{pod("v", nil)}, "1") }, "", "u", "-"},
		{func() error { return p.table.Replace([]any{pod("v", map[string]string{"b": "1"})}, "2") }, "v", "v", ""},
		{func() error { return p.table.Delete(pod("v", nil)) }, "", "v", "-"},
	}
	for i, s := range steps {
		changed = nil
		must.Succeed(t, s.do())
		var want []string
		if s.changed != "" {
			want = []string{s.changed}
		}
		if !slices.Equal(changed, want) {
			t.Errorf("step %d: changed %q, want %q", i, changed, want)
		}
		if values, ok := p.Annotations(s.uid); ok != (s.value != "-") || ok && values["a"] != s.value {
			t.Errorf("step %d: %q, %t, want %q", i, values, ok, s.value)
		}
	}
}

// TestPods_Stopping: a deleted pod is being stopped while one of its containers runs, and for a while
// after its grace period.
func TestPods_Stopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pods{table: newTable()}
		if n, known := p.Stopping(); n != 0 || known {
			t.Errorf("before the list: %d, known: %t", n, known)
		}
		newPod := func(uid types.UID) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid}}
		}
		pod := newPod("u1")
		running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{running, {}}
		other := newPod("u2")
		must.Succeed(t, p.table.Replace([]any{pod, other}, "1"))
		change := func(what string, want int, f func()) {
			t.Helper()
			f()
			must.Succeed(t, p.table.Update(pod))
			if n, known := p.Stopping(); n != want || !known {
				t.Errorf("%s: %d, known: %t, want %d", what, n, known, want)
			}
		}
		change("runs", 0, func() {})
		change("deleted", 1, func() { pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(600 * time.Second)} })
		change("one container has stopped", 1, func() {
			pod.Status.ContainerStatuses[1].State.Terminated = &corev1.ContainerStateTerminated{}
		})
		change("all have stopped", 0, func() { pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:] })
		change("a sidecar runs", 1, func() { pod.Status.InitContainerStatuses = []corev1.ContainerStatus{running} })
		change("the end of the grace period", 1, func() { time.Sleep(600*time.Second + stopSlack - 1) })
		change("cannot be stopped", 0, func() { time.Sleep(time.Nanosecond) })
		change("deleted again", 1, func() { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		must.Succeed(t, p.table.Delete(pod))
		if n, _ := p.Stopping(); n != 0 {
			t.Errorf("%d pods after the removal", n)
		}
		change("back", 1, func() {})
		must.Succeed(t, p.table.Replace([]any{other}, "2"))
		if n, _ := p.Stopping(); n != 0 {
			t.Errorf("%d pods after a list without the pod", n)
		}
	})
}

// TestStaticPods_Size covers both sides of the limit of a manifest, in a directory that is
// created after the first reading.
func TestStaticPods_Size(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests")
	var got map[types.NamespacedName]policy.Pod
	s := staticPods{path: path, node: "Node", publish: func(pods map[types.NamespacedName]policy.Pod) { got = pods }}
	if failed := s.read(); got == nil || len(got) != 0 || failed[path] == nil {
		t.Errorf("got %v, %v", got, failed)
	}
	must.Succeed(t, os.Mkdir(path, 0o700))
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	for _, c := range []struct {
		text  string
		found bool
	}{
		{pod, true},
		{pod + strings.Repeat("\n", maxManifest+1-len(pod)), false},
		{pod + strings.Repeat("\n", maxManifest-len(pod)), true},
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(path, "p"), []byte(c.text), 0o600))
		failed := s.read()
		if _, ok := got[types.NamespacedName{Namespace: "default", Name: "p-node"}]; ok != c.found || ok != (len(failed) == 0) {
			t.Errorf("%d bytes: %v, %v", len(c.text), got, failed)
		}
	}
}
