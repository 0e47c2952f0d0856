// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// onFakeTime runs test with a running Watcher that has read resolv.conf with server(1). The time is
// fake, the file is real.
func onFakeTime(t *testing.T, test func(d tree, w *runningWatcher)) {
	t.Helper()
	dir := newTree(t).dir
	synctest.Test(t, func(t *testing.T) {
		d := tree{t, dir}
		d.write("resolv.conf", server(1))
		test(d, watch(t, Config{Path: d.path("resolv.conf"), Poll: DefaultPoll}))
	})
}

// pass waits until after n polls.
func pass(n time.Duration) {
	time.Sleep(n * DefaultPoll)
	synctest.Wait()
}

// TestRun_HalfWritten truncates the file and writes it after the next poll. There is no snapshot of
// the empty file, and none of a file with the same text.
func TestRun_HalfWritten(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		_, newer := w.Current()
		d.write("resolv.conf", "")
		pass(1)
		d.write("resolv.conf", server(2))
		pass(1)
		w.expect("after one poll", serves(1))
		d.write("resolv.conf", server(3))
		pass(1)
		w.expect("after one poll of another text", serves(1))
		<-newer
		w.expect("the first snapshot", serves(3))
		_, newer = w.Current()
		d.replace("resolv.conf", server(3))
		pass(10)
		select {
		case <-newer:
			t.Error("there is another snapshot")
		default:
		}
	})
}

// TestRun_ConstantChange checks that a file that changes all the time is published at every tenth poll.
func TestRun_ConstantChange(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		for n := range 25 {
			d.write("resolv.conf", server(2+n))
			pass(1)
			w.expect("after a change", serves(1+n/10*10+map[bool]int{true: 10}[n%10 == 9]))
		}
		pass(1)
		w.expect("after the last change", serves(26))
	})
}

// TestRun_Log checks that a state is logged once.
func TestRun_Log(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		w.log.take()
		expect := func(polls time.Duration, text string, want ...string) {
			t.Helper()
			d.write("resolv.conf", text)
			pass(polls)
			if diff := cmp.Diff(want, w.log.take()); diff != "" {
				t.Errorf("%q (-want +got)\n%s", text, diff)
			}
		}
		const bad = `level=WARN msg="the host's resolv.conf is unusable" error=`
		expect(3, server(1))
		expect(4, "nameserver\n", bad+`"Encountered error while parsing resolv conf file. Error: nameserver list is empty "`)
		expect(4, "# again\nnameserver\n")
		expect(4, "", bad+`"the file has no nameserver"`)
		expect(2, server(1), `level=INFO msg="the host's resolv.conf is usable again"`)
		expect(4, "nameserver 127.0.0.1\n", `level=INFO msg="read the host's resolv.conf"`,
			`level=WARN msg="the host's resolv.conf has nameservers on the loopback of the node"`)
	})
}

// TestReread_Problem checks that a problem is in the snapshot of Reread at once, and published
// after two polls.
func TestReread_Problem(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		d.write("resolv.conf", "")
		if s := w.Reread(); !keeps(1, "the file has no nameserver")(s) {
			t.Errorf("Reread: got %+v", s)
		}
		pass(1)
		w.expect("after one poll", serves(1))
		pass(1)
		w.expect("after two polls", keeps(1, "the file has no nameserver"))
		d.write("resolv.conf", server(2))
		if s := w.Reread(); !serves(2)(s) {
			t.Errorf("Reread: got %+v", s)
		}
		w.expect("a good file", serves(2))
	})
}
