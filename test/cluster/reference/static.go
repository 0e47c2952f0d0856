// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// staticPod is the result of a kubelet for a manifest: a pod, or the reason why there is
// none.
type staticPod struct {
	pod     *corev1.Pod
	refused string
}

// caseAnnotation links a pod to its case: the kubelet changes the name and the UID.
const caseAnnotation = "case"

// readManifests writes the manifests of list into static pod directories, one for each
// node, and returns the result of a kubelet by index in list.
func readManifests(ctx context.Context, dir string, list []cases.Case) (map[int]staticPod, error) {
	static := make(map[int]staticPod)
	for node, indexes := range groupManifests(list) {
		manifests, err := os.MkdirTemp(dir, "manifests")
		if err != nil {
			return nil, err
		}
		for _, i := range indexes {
			if err := writeManifest(manifests, i, list[i].Pod); err != nil {
				return nil, err
			}
		}
		if err := readNode(ctx, manifests, node, static); err != nil {
			return nil, err
		}
		for _, i := range indexes {
			if static[i] == (staticPod{}) {
				return nil, fmt.Errorf("%s: the kubelet neither accepts the manifest nor logs a reason", list[i].ID)
			}
		}
	}
	return static, nil
}

// writeManifest writes the manifest of case i.
func writeManifest(dir string, i int, pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = make(map[string]string)
	}
	pod.Annotations[caseAnnotation] = strconv.Itoa(i)
	data, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".json"), data, 0o600)
}

// readNode adds the results of one node's manifests to static.
func readNode(ctx context.Context, dir, node string, static map[int]staticPod) error {
	pods, refused := readDirectory(ctx, dir, node)
	for _, pod := range pods {
		i, err := strconv.Atoi(pod.Annotations[caseAnnotation])
		if err != nil {
			return fmt.Errorf("static pod %s/%s: annotation: %w", pod.Namespace, pod.Name, err)
		}
		delete(pod.Annotations, caseAnnotation)
		static[i] = staticPod{pod: pod}
	}
	for path, reason := range refused {
		i, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil {
			return fmt.Errorf("the kubelet refuses %s: %w", path, reason)
		}
		if static[i].pod == nil {
			static[i] = staticPod{refused: reason.Error()}
		}
	}
	return nil
}

// groupManifests returns the indexes of the manifests in list by node. A kubelet accepts
// one pod of each name.
func groupManifests(list []cases.Case) map[string][]int {
	groups := make(map[string][]int)
	for i := range list {
		if list[i].Manifest {
			groups[list[i].Node()] = append(groups[list[i].Node()], i)
		}
	}
	return groups
}

// readDirectory reads dir once with the kubelet's file source. The source cannot be
// stopped, so its interval is longer than the process lives.
func readDirectory(ctx context.Context, dir, node string) ([]*corev1.Pod, map[string]error) {
	refusals := &refusalLog{byPath: make(map[string]error)}
	source := config.NewPodConfig(new(recorder), noObserver{})
	channel := source.Channel(ctx, kubetypes.FileSource)
	const never = 1000 * time.Hour
	config.NewSourceFile(logr.New(refusals), dir, types.NodeName(node), never, channel)
	update := <-source.Updates()

	refusals.mu.Lock()
	defer refusals.mu.Unlock()
	return update.Pods, refusals.byPath
}

// refusalLog keeps the reasons for refused manifests, which the file source only logs.
type refusalLog struct {
	mu     sync.Mutex
	byPath map[string]error
}

func (l *refusalLog) Init(logr.RuntimeInfo)          {}
func (l *refusalLog) Enabled(int) bool               { return false } // logr calls Error anyway
func (l *refusalLog) Info(int, string, ...any)       {}
func (l *refusalLog) WithValues(...any) logr.LogSink { return l }
func (l *refusalLog) WithName(string) logr.LogSink   { return l }
func (l *refusalLog) Error(err error, _ string, kv ...any) {
	if len(kv) == 2 && kv[0] == "path" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.byPath[kv[1].(string)] = err
	}
}

// noObserver replaces the kubelet's start-up metrics.
type noObserver struct{}

func (noObserver) ObservedPodOnWatch(*corev1.Pod, time.Time) {}
