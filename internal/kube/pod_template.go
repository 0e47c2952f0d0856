// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// podTemplate returns the path of the first pod template in an object of any kind, such as
// "spec.template" of an Argo Rollout, or "" for a Prometheus, whose spec has the fields of a
// pod itself.
func podTemplate(js []byte) (path string, found bool) {
	var object map[string]any
	if json.Unmarshal(js, &object) != nil {
		return "", false
	}
	return findTemplate(object, "")
}

func findTemplate(value any, path string) (template string, found bool) {
	object, _ := value.(map[string]any)
	if isPodTemplate(object) {
		return path, true
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if template, found = findTemplate(object[key], strings.TrimPrefix(path+"."+key, ".")); found {
			return template, true
		}
	}
	list, _ := value.([]any)
	for i, v := range list {
		if template, found = findTemplate(v, fmt.Sprintf("%s[%d]", path, i)); found {
			return template, true
		}
	}
	return "", false
}

// isPodTemplate reports whether value has a spec with fields of a pod: the ones about DNS, or
// containers with a name or an image.
func isPodTemplate(value map[string]any) bool {
	spec, _ := value["spec"].(map[string]any)
	if spec["dnsPolicy"] != nil || spec["dnsConfig"] != nil {
		return true
	}
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return false
	}
	container, _ := containers[0].(map[string]any)
	_, named := container["name"].(string)
	_, image := container["image"].(string)
	return named || image
}
