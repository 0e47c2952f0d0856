// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// variants is the number of objects with one name but different templates: the number of
// characters of a hash is 8 to 10.
const variants = 6

// TestAPIServer_Controllers compares the findings about names that controllers extend with what
// the controllers of Kubernetes do: an object without a finding gets its pods, one with an error
// gets none. Of those with a warning, the ones with short hashes do: the label
// controller-revision-hash has the name of the revision.
func TestAPIServer_Controllers(t *testing.T) {
	c := apiserver.Start(t, withoutAccounts)
	c.StartControllers(t, "deployment-controller", "replicaset-controller", "statefulset-controller")
	w := newWebhookTest(t, c)
	api := w.api
	var objects [][]byte
	for kind, lengths := range map[string][]int{"StatefulSet": {52, 53, 54, 55, 61}, "Deployment": {242, 243, 253}} {
		for _, n := range lengths {
			objects = append(objects, extended(t, kind, n))
		}
	}
	severities := nameSeverities(t, w.binary, objects)
	refused, accepted := map[string]int{}, map[string]int{}
	ctx := t.Context()
	for variant := range variants {
		namespace := fmt.Sprint("variant-", variant)
		must.Get(api.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
		for _, o := range objects {
			if s, err := w.create(ctx, vary(t, o, namespace, variant), false); err != nil || s.refused != "" {
				t.Fatal(s.refused, err)
			}
		}
	}
	for variant := range variants {
		namespace := fmt.Sprint("variant-", variant)
		for name, severity := range severities {
			exist := hasPods(ctx, t, api, namespace, name)
			if exist {
				accepted[severity]++
			} else {
				refused[severity]++
			}
			if exist && severity == "error" || !exist && severity == "" {
				t.Errorf("%s/%s: severity %q, there are pods: %v", namespace, name, severity, exist)
			}
			if severity == "warning" && exist != (len(revisionOf(ctx, t, api, namespace, name)) <= fqdn.MaxLabel) {
				t.Errorf("%s/%s: there are pods: %v", namespace, name, exist)
			}
		}
	}
	t.Logf("with pods: %v, without: %v", accepted, refused)
	if accepted[""] != 4*variants || refused["warning"] == 0 || refused["error"] != 2*variants {
		t.Errorf("with pods: %v, without: %v", accepted, refused)
	}
}

// extended returns an object with a name of n characters, the first of which is the first of its
// kind.
func extended(t *testing.T, kindName string, n int) []byte {
	t.Helper()
	name := strings.ToLower(kindName[:1]) + strings.Repeat("n", n-1)
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == kindName })
	return named(t, kinds[i], map[string]any{"name": name}, nil)
}

// vary returns a variant of an object in a namespace, whose pods have a label for its name.
func vary(t *testing.T, object []byte, namespace string, variant int) []byte {
	t.Helper()
	var o struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Spec       map[string]any    `json:"spec"`
	}
	must.Succeed(t, json.Unmarshal(object, &o))
	o.Metadata.Namespace = namespace
	pod := o.Spec["template"].(map[string]any)
	pod["metadata"].(map[string]any)["labels"].(map[string]any)["owner"] = hashOf(o.Metadata.Name)
	container := pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	container["env"] = []any{map[string]any{"name": "VARIANT", "value": fmt.Sprint(variant)}}
	return []byte(text(t, o))
}

// hashOf returns a label value for a name that is too long for one.
func hashOf(name string) string { return fmt.Sprintf("%c%d", name[0], len(name)) }

// hasPods waits for a pod of an object, or for the report of its controller that the API server
// refuses it or its ReplicaSet.
func hasPods(ctx context.Context, t *testing.T, api kubernetes.Interface, namespace, name string) (exist bool) {
	t.Helper()
	poll.Until(t, "pods of "+namespace+"/"+name+", or a report of the controller", func() bool {
		pods := must.Get(api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}))(t)
		exist = slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Labels["owner"] == hashOf(name) })
		return exist || isRefused(ctx, t, api, namespace, name)
	})
	return exist
}

// isRefused reports whether a controller has sent an event that it could not create the object's
// ReplicaSet or pods.
func isRefused(ctx context.Context, t *testing.T, api kubernetes.Interface, namespace, name string) bool {
	t.Helper()
	events := must.Get(api.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name}))(t)
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.Reason == "FailedCreate" || e.Reason == "ReplicaSetCreateError"
	})
}

// revisionOf returns the name of the revision of a StatefulSet.
func revisionOf(ctx context.Context, t *testing.T, api kubernetes.Interface, namespace, name string) string {
	t.Helper()
	revisions, err := api.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=" + hashOf(name)})
	if err != nil || len(revisions.Items) != 1 {
		t.Fatalf("%s/%s: %d revisions, %v", namespace, name, len(revisions.Items), err)
	}
	return revisions.Items[0].Name
}

// nameSeverities returns the severities of the findings of the command validate about names that
// controllers extend, by name. "" is none.
func nameSeverities(t *testing.T, binary string, objects [][]byte) map[string]string {
	t.Helper()
	severities := map[string]string{}
	for _, o := range validated(t, binary, objects) {
		severities[o.Name] = ""
		for _, f := range o.Findings {
			if f.Code == "statefulset-name" {
				severities[o.Name] = f.Severity
			}
		}
	}
	return severities
}
