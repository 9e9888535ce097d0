// A batch of payments between accounts as two tasks, on the CPU or on a device.
//
// An account spends, in the order of arrival, its balance at the beginning of the batch; received
// payments are added at the end. Accounts are therefore independent, and both backends decide
// alike.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"
#include "task_times.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tg = topograd;
using tg::hybrid::Override;

using Cents = std::uint64_t;

struct Payment {
  std::uint32_t from, to, cents, number, seal;
};

std::uint32_t mix(std::uint32_t hash, std::uint32_t word) {
  hash = (hash ^ word) * 0x85ebca6b;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35;
  return hash ^ (hash >> 16);
}
// Detects a payment that was altered on its way.
std::uint32_t seal_of(const Payment& p) {
  return mix(mix(mix(mix(0x5bd1e995, p.from), p.to), p.cents), p.number);
}
bool is_sound(const Payment& p) { return p.cents > 0 && p.to != p.from && p.seal == seal_of(p); }

// Payments by account: positions [first[k], first[k + 1]) of `order` are those of account k.
struct ByAccount {
  std::vector<std::uint32_t> first, order;

  ByAccount(std::size_t accounts, std::span<const Payment> payments,
            std::uint32_t Payment::*account)
      : first(accounts + 1), order(payments.size()) {
    for (const Payment& p : payments) ++first[p.*account + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::uint32_t> next = first;
    for (std::uint32_t k = 0; k < payments.size(); ++k) order[next[payments[k].*account]++] = k;
  }
};

struct Ledger {
  std::span<const Cents> before;
  ByAccount paid;
  std::vector<Payment> payments;  // by payer, then in the order of arrival
  ByAccount received;             // indices of `payments`

  Ledger(std::span<const Cents> balances, std::span<const Payment> arrived)
      : before(balances),
        paid(balances.size(), arrived, &Payment::from),
        payments(in_order(arrived, paid.order)),
        received(balances.size(), payments, &Payment::to) {}

 private:
  static std::vector<Payment> in_order(std::span<const Payment> arrived,
                                       std::span<const std::uint32_t> order) {
    std::vector<Payment> out;
    for (const std::uint32_t k : order) out.push_back(arrived[k]);
    return out;
  }
};

// Common parts of the two tasks: each item is an account.
class Pass : public tg::hybrid::Task {
 public:
  Pass(const Ledger& ledger, Override where, std::uint64_t threads)
      : ledger_(ledger), where_(where), threads_(threads) {}

  std::uint64_t threads() const override { return threads_; }
  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 256, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) run_account(k);
    });
  }

 protected:
  virtual void run_account(std::size_t account) = 0;
  // Work per payment.
  tg::hybrid::TaskShape shape_of(std::uint64_t number, const char* operation,
                                 tg::hybrid::Features each) const {
    const std::size_t accounts = ledger_.before.size();
    const double payments = static_cast<double>(ledger_.payments.size()) /
                            static_cast<double>(std::max<std::size_t>(1, accounts));
    each.operations *= payments;
    each.bytes = each.bytes * payments + 2 * sizeof(Cents) + 4;
    return {.kernel = {number, threads_},  // a history for each number of threads
            .operation = operation,
            .size = accounts,
            .bytes_in = 4 * (accounts + 1) + ledger_.before.size_bytes() +
                        ledger_.payments.size() * sizeof(Payment),
            .bytes_out = ledger_.before.size_bytes() + 4 * ledger_.payments.size(),
            .features = each,
            .where = where_};
  }
  template <class T>
  static tg::hybrid::DeviceArray input(const T& numbers) {
    return {.read = {std::as_bytes(std::span(numbers))}};
  }
  template <class T>
  static tg::hybrid::DeviceArray output(T& numbers) {
    return {.written = {std::as_writable_bytes(std::span(numbers))}};
  }

  const Ledger& ledger_;

 private:
  Override where_;
  std::uint64_t threads_;
};

// Decides which payments are accepted, and computes the remaining balances.
class Pay final : public Pass {
 public:
  Pay(const Ledger& ledger, std::span<std::uint32_t> accepted, std::span<Cents> left,
      Override where, std::uint64_t threads)
      : Pass(ledger, where, threads), accepted_(accepted), left_(left) {}

  tg::hybrid::TaskShape shape() const override {
    return shape_of(0x706179, "pay", {.operations = 32, .bytes = sizeof(Payment) + 4});
  }
  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    return tg::hybrid::DeviceProgram{
        .name = "pay",
        .glsl = kShader,
        .arrays = {input(ledger_.paid.first), input(ledger_.payments), input(ledger_.before),
                   output(accepted_), output(left_)},
        .items = items.count()};
  }

 private:
  void run_account(std::size_t account) override {
    Cents left = ledger_.before[account];
    for (std::size_t p = ledger_.paid.first[account]; p < ledger_.paid.first[account + 1]; ++p) {
      const Payment& payment = ledger_.payments[p];
      accepted_[p] = is_sound(payment) && payment.cents <= left;
      if (accepted_[p]) left -= payment.cents;
    }
    left_[account] = left;
  }

  // 64-bit cents are two words, the lower one first.
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
struct Payment { uint from, to, cents, number, seal; };
layout(set = 0, binding = 0) readonly buffer First { uint paid_from[]; };
layout(set = 0, binding = 1) readonly buffer Payments { Payment payments[]; };
layout(set = 0, binding = 2) readonly buffer Before { uvec2 before[]; };
layout(set = 0, binding = 3) writeonly buffer Accepted { uint accepted[]; };
layout(set = 0, binding = 4) writeonly buffer Left { uvec2 left[]; };
layout(push_constant) uniform Push { uint first; uint items; };
uint mixed(uint hash, uint word) {
  hash = (hash ^ word) * 0x85ebca6bu;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35u;
  return hash ^ (hash >> 16);
}
void main() {
  uint account = first + gl_GlobalInvocationID.x;
  if (account >= items) return;
  uvec2 balance = before[account];
  for (uint k = paid_from[account]; k < paid_from[account + 1]; ++k) {
    Payment p = payments[k];
    uint seal = mixed(mixed(mixed(mixed(0x5bd1e995u, p.from), p.to), p.cents), p.number);
    bool covered = balance.y > 0 || p.cents <= balance.x;
    bool sound = p.cents > 0 && p.to != p.from && p.seal == seal;
    accepted[k] = sound && covered ? 1 : 0;
    if (sound && covered) {
      uint borrow;
      balance.x = usubBorrow(balance.x, p.cents, borrow);
      balance.y -= borrow;
    }
  }
  left[account] = balance;
}
)";

  std::span<std::uint32_t> accepted_;
  std::span<Cents> left_;
};

// Adds the received payments of each account.
class Settle final : public Pass {
 public:
  Settle(const Ledger& ledger, std::span<const std::uint32_t> accepted, std::span<const Cents> left,
         std::span<Cents> after, Override where, std::uint64_t threads)
      : Pass(ledger, where, threads), accepted_(accepted), left_(left), after_(after) {}

  tg::hybrid::TaskShape shape() const override {
    return shape_of(0x736574, "settle",
                    {.operations = 3, .bytes = 12, .pattern = tg::hybrid::MemoryPattern::gather});
  }
  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    return tg::hybrid::DeviceProgram{
        .name = "settle",
        .glsl = kShader,
        .arrays = {input(ledger_.received.first), input(ledger_.received.order),
                   input(ledger_.payments), input(accepted_), input(left_), output(after_)},
        .items = items.count()};
  }

 private:
  void run_account(std::size_t account) override {
    const auto& [first, order] = ledger_.received;
    Cents after = left_[account];
    for (std::size_t k = first[account]; k < first[account + 1]; ++k)
      if (accepted_[order[k]]) after += ledger_.payments[order[k]].cents;
    after_[account] = after;
  }

  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
struct Payment { uint from, to, cents, number, seal; };
layout(set = 0, binding = 0) readonly buffer First { uint received_from[]; };
layout(set = 0, binding = 1) readonly buffer Order { uint order[]; };
layout(set = 0, binding = 2) readonly buffer Payments { Payment payments[]; };
layout(set = 0, binding = 3) readonly buffer Accepted { uint accepted[]; };
layout(set = 0, binding = 4) readonly buffer Left { uvec2 left[]; };
layout(set = 0, binding = 5) writeonly buffer After { uvec2 after[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint account = first + gl_GlobalInvocationID.x;
  if (account >= items) return;
  uvec2 balance = left[account];
  for (uint k = received_from[account]; k < received_from[account + 1]; ++k) {
    if (accepted[order[k]] == 0) continue;
    uint carry;
    balance.x = uaddCarry(balance.x, payments[order[k]].cents, carry);
    balance.y += carry;
  }
  after[account] = balance;
}
)";

  std::span<const std::uint32_t> accepted_;
  std::span<const Cents> left_;
  std::span<Cents> after_;
};

// Processes the payments one by one in the order of arrival.
std::vector<Cents> one_by_one(const std::vector<Cents>& before, std::span<const Payment> arrived,
                              std::size_t& accepted) {
  std::vector<Cents> left = before, received(before.size());
  for (const Payment& p : arrived) {
    if (!is_sound(p) || p.cents > left[p.from]) continue;
    ++accepted;
    left[p.from] -= p.cents;
    received[p.to] += p.cents;
  }
  for (std::size_t k = 0; k < left.size(); ++k) left[k] += received[k];
  return left;
}

std::vector<Payment> make_payments(std::size_t count, std::size_t accounts) {
  std::mt19937 random(7);
  std::vector<Payment> out(count);
  for (std::uint32_t k = 0; k < count; ++k) {
    Payment& p = out[k];
    p = {.from = static_cast<std::uint32_t>(random() % accounts),
         .to = static_cast<std::uint32_t>(random() % accounts),
         .cents = static_cast<std::uint32_t>(random() % 5'000),
         .number = k};
    p.seal = seal_of(p) ^ (random() % 100 == 0 ? 1 : 0);  // one in a hundred was altered
  }
  return out;
}

// transactions [payments]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::size_t>(100'000);
  const std::size_t accounts = std::max<std::size_t>(2, count / 8);
  // Includes the software device, so that both backends run on any machine.
  tg::hybrid::Executor executor(tg::hybrid::environment_hybrid_options({.admit_software = true}));
  const bool device = tg::add_devices(executor) > 0;

  // Some balances need more than 32 bits of cents.
  std::vector<Cents> before(accounts);
  for (std::size_t k = 0; k < accounts; ++k)
    before[k] = k % 100 == 0 ? 4'294'967'000 : 100 * (k % 200);
  const std::vector<Payment> arrived = make_payments(count, accounts);
  std::size_t accepted_count = 0;
  const std::vector<Cents> expected = one_by_one(before, arrived, accepted_count);
  const Ledger ledger(before, arrived);
  std::printf("%zu payments between %zu accounts, %zu accepted\n", count, accounts, accepted_count);

  double one_thread_us = 0;
  for (const sample::Way& way : sample::ways(device)) {
    std::vector<std::uint32_t> accepted(count);
    std::vector<Cents> left(accounts), after(accounts);
    Pay pay(ledger, accepted, left, way.where, way.threads);
    Settle settle(ledger, accepted, left, after, way.where, way.threads);
    std::string where;
    const double median = sample::median_us(executor, 7, [&] {
      where = executor.execute(pay).device;
      where += ", " + executor.execute(settle).device;
    });
    if (after != expected) {
      std::printf("%s: balances differ\n", way.name);
      return 1;
    }
    if (one_thread_us == 0) one_thread_us = median;
    std::printf("%-17s %9.1f µs, %6.2f x, %5.1f million payments a second (%s)\n", way.name, median,
                one_thread_us / median, static_cast<double>(count) / median, where.c_str());
  }
  return std::accumulate(before.begin(), before.end(), Cents{0}) ==
                 std::accumulate(expected.begin(), expected.end(), Cents{0})
             ? 0
             : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "transactions [PAYMENTS]", program);
}
