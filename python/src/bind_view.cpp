// The live view from Python: a session of a model, with positions as NumPy arrays.
#include "bindings.hpp"

#include "../../view/session.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::python {
namespace {

using Numbers = ArrayOf<std::uint32_t>;

/// Rows of an array of shape (count, N).
template <std::size_t N>
std::vector<std::array<std::uint32_t, N>> shapes(const Numbers& given) {
  std::vector<std::array<std::uint32_t, N>> out(given.size() / N);
  const std::uint32_t* numbers = given.data();
  for (auto& shape : out)
    for (std::uint32_t& point : shape) point = *numbers++;
  return out;
}

/// A session, closed without the interpreter's lock: its threads may be about to end a solve.
class LiveView {
 public:
  LiveView(Bound& bound, std::size_t array, const Numbers& triangles, const Numbers& lines,
           const py::dict& given, const std::string& name, int steps, int linear_iterations,
           double budget_ms, double handle_weight, const std::string& host, int port,
           bool allow_remote)
      : session_(bound.model->problem(), bound.model->arrays().at(array),
                 {.triangles = shapes<3>(triangles), .lines = shapes<2>(lines)},
                 {.name = name,
                  .solver = options_from(given),
                  .steps = steps,
                  .linear_iterations = linear_iterations,
                  .budget_ms = budget_ms,
                  .handle_weight = handle_weight,
                  .host = host,
                  .port = port,
                  .allow_remote = allow_remote}) {}
  ~LiveView() { close(); }
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void close() {
    const py::gil_scoped_release released;
    session_.close();
  }
  const view::Session& session() const { return session_; }

 private:
  view::Session session_;
};

}  // namespace

void bind_view(py::module_& module) {
  py::class_<LiveView>(module, "View", "A page on which a model is pulled at while it is solved.")
      .def(py::init<Bound&, std::size_t, const Numbers&, const Numbers&, const py::dict&,
                    const std::string&, int, int, double, double, const std::string&, int, bool>(),
           py::keep_alive<1, 2>())
      .def("close", &LiveView::close)
      .def("wait",
           [](const LiveView& view, double seconds) {
             const py::gil_scoped_release released;
             return view.session().wait(seconds);
           })
      .def("positions", [](const LiveView& view) { return to_numpy(view.session().positions()); })
      .def_property_readonly("url", [](const LiveView& view) { return view.session().url(); })
      .def_property_readonly("is_open",
                             [](const LiveView& view) { return view.session().is_open(); })
      .def_property_readonly("cost", [](const LiveView& view) { return view.session().cost(); })
      .def_property_readonly("message",
                             [](const LiveView& view) { return view.session().message(); });
}

}  // namespace topograd::python
