// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestFootprint measures what a pod costs. The names are as long as in practice, and
// one pod in ten has a dnsConfig.
func TestFootprint(t *testing.T) {
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
		t.Errorf("a pod costs %d bytes, the limit is %d", each, limit)
	}
	runtime.KeepAlive(table)
}

// TestForeignObjects has a server that sends something else than pods.
func TestForeignObjects(t *testing.T) {
	table := newTable()
	if table.Add(&corev1.Node{}) == nil || table.Delete(&corev1.Node{}) == nil || table.Replace([]any{&corev1.Node{}}, "1") == nil || table.isSynced() {
		t.Error("taken in")
	}
}

// TestMirrorOutlivesItsPredecessor has the events of one name in the wrong order.
func TestMirrorOutlivesItsPredecessor(t *testing.T) {
	mirror := func(uid types.UID, of string) *corev1.Pod {
		annotations := map[string]string{corev1.MirrorPodAnnotationKey: of}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: uid, Annotations: annotations}}
	}
	table := newTable()
	if err := errors.Join(table.Add(mirror("u1", "h1")), table.Add(mirror("u2", "h2")), table.Delete(mirror("u1", "h1"))); err != nil {
		t.Fatal(err)
	}
	ref := Ref{Namespace: "ns", Name: "n", UID: "h2", Annotations: map[string]string{"kubernetes.io/config.source": "http"}}
	if a, ok := table.find(ref); !ok || a.pod.UID != "h2" || a.source != Informer {
		t.Errorf("got %+v", a)
	}
	if err := table.Delete(mirror("u2", "h2")); err != nil || len(table.pods)+len(table.mirrors) > 0 {
		t.Errorf("left %v, %v, %v", table.pods, table.mirrors, err)
	}
}

// TestDirectoryComesLater reads without inotify, as every rereadPeriod.
func TestDirectoryComesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests")
	var got map[name]policy.Pod
	var complaints counter
	d := directory{path: path, node: "Node", log: slog.New(slog.NewTextHandler(&complaints, nil)), set: func(pods map[name]policy.Pod) { got = pods }}
	d.read()
	d.read()
	if got == nil || len(got) != 0 || complaints != 1 {
		t.Errorf("got %v, %d complaints", got, complaints)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	for _, c := range []struct {
		text  string
		found bool
	}{
		{pod, true},
		{pod + strings.Repeat("\n", maxManifest+1-len(pod)), false},
		{pod + strings.Repeat("\n", maxManifest-len(pod)), true},
	} {
		if err := os.WriteFile(filepath.Join(path, "p"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.read()
		if _, ok := got[name{"default", "p-node"}]; ok != c.found {
			t.Errorf("%d bytes: %v, %v", len(c.text), got, d.complaints)
		}
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c++; return len(p), nil }
