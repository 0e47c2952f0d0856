// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
		if err := table.Add(pod); err != nil {
			t.Fatal(err)
		}
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
	if err := errors.Join(table.Add(mirror("u1", "h1")), table.Add(mirror("u2", "h2")), table.Delete(mirror("u1", "h1"))); err != nil {
		t.Fatal(err)
	}
	ref := Ref{Namespace: "ns", Name: "n", UID: "h2", Annotations: map[string]string{"kubernetes.io/config.source": "http"}}
	if a, ok := table.get(ref); !ok || a.pod.UID != "h2" || a.source != Informer {
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
		if err := errors.Join(table.Add(pod(i, 1)), table.Update(pod(i, 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if len(table.pods) != 0 || len(table.large) != 100 {
		t.Errorf("%d pods kept, %d large ones", len(table.pods), len(table.large))
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
		if err := table.Delete(pod(i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(table.pods)+len(table.large) > 0 {
		t.Errorf("left %v, %v", table.pods, table.large)
	}
}
