// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// maxSeries limits the rows of a metric. Label sets are closed, so no metric reaches it.
const maxSeries = 100

// section is a part of the page: the metrics whose names begin with one of the prefixes.
type section struct {
	title    string
	prefixes []string
}

// sections in the order of the page. A metric belongs to the first that has a prefix of it; the
// last one takes all others.
var sections = []section{
	{"Pods", []string{"sandbox_", "agent_", "nri_", "cri_", "runtime_", "draining_", "handovers_"}},
	{"Admission", []string{"admission_", "webhook_"}},
	{"Queries", []string{"dns_queries_", "dns_query_", "dns_refusals_", "dns_dropped_", "dns_panics_"}},
	{"Limits", []string{"dns_slots_", "dns_tcp_", "dns_udp_", "http_"}},
	{"Names of the cluster", []string{"dns_objects", "dns_zone_", "dns_api_", "dns_programming_", "dns_snapshot_"}},
	{"Cache", []string{"dns_cache_"}},
	{"Upstream servers", []string{"dns_upstream_", "nodecache_"}},
	{"Autopath", []string{"dns_autopath_"}},
	{"Other", []string{""}},
}

const namespace = "dnsconfigurer_"

// sectionView, metricView and rowView are the data of page.html for sections, metrics and time
// series.
type (
	sectionView struct {
		Title   string
		Metrics []metricView
	}
	metricView struct {
		Name, Help string
		Single     string // the value of a metric without labels; "": see Rows
		Rows       []rowView
		Zeros      string // how many other time series are zero; "": none
	}
	rowView struct{ Labels, Value string }
)

// arrange returns the sections that have metrics. Those of the Go runtime and of the process are
// left out: they are for monitoring.
func arrange(families []*dto.MetricFamily) (list []sectionView) {
	arranged := make([][]metricView, len(sections))
	for _, f := range families {
		name, isServer := strings.CutPrefix(f.GetName(), namespace)
		if !isServer || name == "build_info" {
			continue
		}
		i := slices.IndexFunc(sections, func(s section) bool {
			return slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		arranged[i] = append(arranged[i], newMetricView(f))
	}
	for i, metrics := range arranged {
		if len(metrics) > 0 {
			list = append(list, sectionView{sections[i].title, metrics})
		}
	}
	return list
}

// newMetricView returns a metric with its time series, those with the largest values first.
// Series that are zero are counted only.
func newMetricView(f *dto.MetricFamily) metricView {
	v := metricView{Name: f.GetName(), Help: f.GetHelp()}
	series := slices.Clone(f.GetMetric())
	if len(series) == 1 && len(series[0].GetLabel()) == 0 {
		v.Single = valueOf(v.Name, series[0])
		return v
	}
	slices.SortStableFunc(series, func(a, b *dto.Metric) int { return cmp.Compare(size(b), size(a)) })
	zeros := 0
	for _, m := range series[:min(len(series), maxSeries)] {
		if size(m) == 0 {
			zeros++
			continue
		}
		v.Rows = append(v.Rows, rowView{labelsOf(m), valueOf(v.Name, m)})
	}
	switch {
	case zeros > 0 && len(v.Rows) == 0:
		v.Zeros = fmt.Sprintf("all %d series", zeros)
	case zeros > 0:
		v.Zeros = fmt.Sprintf("%d other series", zeros)
	}
	return v
}

// size returns the value of a time series, of a histogram its count.
func size(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

func labelsOf(m *dto.Metric) string {
	labels := make([]string, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(labels, " ")
}

// valueOf returns the value of a time series in the unit that a person reads.
func valueOf(name string, m *dto.Metric) string {
	if h := m.GetHistogram(); h != nil {
		return distribution(strings.HasSuffix(name, "_seconds"), h)
	}
	v := size(m)
	switch {
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return time.Unix(int64(v), 0).UTC().Format(time.RFC3339)
	case strings.HasSuffix(name, "_seconds"):
		return seconds(v)
	case strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_octets"):
		return octets(v)
	}
	return number(v)
}

// distribution returns the count of a histogram and the bounds of the buckets in which its
// median and its 99th percentile are.
func distribution(isTime bool, h *dto.Histogram) string {
	count := h.GetSampleCount()
	if count == 0 {
		return "0"
	}
	format := number
	if isTime {
		format = seconds
	}
	bound := func(part float64) string {
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= part*float64(count) && !math.IsInf(b.GetUpperBound(), 1) {
				return "at most " + format(b.GetUpperBound())
			}
		}
		if n := len(h.GetBucket()); n > 0 {
			return "more than " + format(h.GetBucket()[n-1].GetUpperBound())
		}
		return "not known"
	}
	return fmt.Sprintf("%d, mean %s, median %s, 99 %% %s", count, format(h.GetSampleSum()/float64(count)), bound(0.5), bound(0.99))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// seconds returns a duration with three digits.
func seconds(v float64) string {
	if math.IsNaN(v) || math.Abs(v) > math.MaxInt64/1e9 {
		return number(v)
	}
	d := time.Duration(v * 1e9)
	for unit := time.Duration(1); unit <= time.Second; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}

// octets returns a number of bytes with a unit of 1024.
func octets(v float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if math.Abs(v) < 1024 {
			return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " " + unit
		}
		v /= 1024
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " GiB"
}
