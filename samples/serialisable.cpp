// Transactions that run at the same time, with the result of running them one by one.
//
// Each transaction of a block is executed on the state before the block, on the CPU or on a device,
// as one task. It records which accounts it has read, with their versions, and what it would write.
// The records are then validated in the order of arrival: if no account that a transaction has read
// has another version by now, its writes take effect; otherwise it conflicts with an earlier one,
// and is executed again, on the present state.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tg = topograd;
using tg::hybrid::Override;

using Cents = std::uint32_t;

// Moves cents from one account to another. What `from` lacks comes from `reserve`, which is read
// only then; if that is not enough, nothing is moved.
struct Transaction {
  std::uint32_t from, to, reserve;
  Cents cents;
};

// An account and its number of writes.
struct Account {
  Cents cents;
  std::uint32_t version;
};

// The read set and the write set of an execution: `from`, `to` and `reserve` in this order.
struct Record {
  std::uint32_t reads;                // number of accounts that were read
  std::uint32_t writes;               // the same for writes, which are the first ones
  std::array<std::uint32_t, 3> seen;  // versions of what was read
  std::array<Cents, 3> after;         // what is written
};

Record executed(const Transaction& t, std::span<const Account> accounts) {
  const Account &from = accounts[t.from], &to = accounts[t.to];
  Record out{.reads = 2, .writes = 0, .seen = {from.version, to.version, 0}, .after = {}};
  if (t.from == t.to) return out;
  if (t.cents <= from.cents) {
    out.writes = 2;
    out.after = {from.cents - t.cents, to.cents + t.cents, 0};
    return out;
  }
  const Account& reserve = accounts[t.reserve];
  out.reads = 3;
  out.seen[2] = reserve.version;
  const Cents lack = t.cents - from.cents;
  if (lack > reserve.cents || t.reserve == t.from || t.reserve == t.to) return out;
  out.writes = 3;
  out.after = {0, to.cents + t.cents, reserve.cents - lack};
  return out;
}

// Executes the transactions of a block on one state: each item is a transaction.
class Execute final : public tg::hybrid::Task {
 public:
  Execute(std::span<const Account> accounts, std::span<const Transaction> block,
          std::span<Record> records, Override where)
      : accounts_(accounts), block_(block), records_(records), where_(where) {}

  tg::hybrid::TaskShape shape() const override {
    return {.kernel = {0x657865, 1},
            .operation = "execute",
            .size = block_.size(),
            .bytes_in = accounts_.size_bytes() + block_.size_bytes(),
            .bytes_out = records_.size_bytes(),
            .features = {.operations = 12,
                         .bytes = sizeof(Transaction) + sizeof(Record) + 3 * sizeof(Account),
                         .pattern = tg::hybrid::MemoryPattern::gather},
            .where = where_};
  }
  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 256, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k)
        records_[k] = executed(block_[k], accounts_);
    });
  }
  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    const auto part = [&](auto all) { return all.subspan(items.begin, items.count()); };
    return tg::hybrid::DeviceProgram{
        .name = "execute",
        .glsl = kShader,
        .arrays = {{.read = {std::as_bytes(accounts_)}},
                   {.read = {std::as_bytes(part(block_))}},
                   {.written = {std::as_writable_bytes(part(records_))},
                    .element = tg::hybrid::Element::u32}},
        .items = items.count()};
  }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
struct Transaction { uint from, to, reserve, cents; };
struct Account { uint cents, version; };
struct Record { uint reads, writes, seen[3], after[3]; };
layout(set = 0, binding = 0) readonly buffer Accounts { Account accounts[]; };
layout(set = 0, binding = 1) readonly buffer Block { Transaction block[]; };
layout(set = 0, binding = 2) writeonly buffer Records { Record records[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint k = first + gl_GlobalInvocationID.x;
  if (k >= items) return;
  Transaction t = block[k];
  Account from = accounts[t.from], to = accounts[t.to];
  Record r = Record(2, 0, uint[3](from.version, to.version, 0), uint[3](0, 0, 0));
  if (t.from != t.to) {
    if (t.cents <= from.cents) {
      r.writes = 2;
      r.after = uint[3](from.cents - t.cents, to.cents + t.cents, 0);
    } else {
      Account reserve = accounts[t.reserve];
      r.reads = 3;
      r.seen[2] = reserve.version;
      uint lack = t.cents - from.cents;
      if (lack <= reserve.cents && t.reserve != t.from && t.reserve != t.to) {
        r.writes = 3;
        r.after = uint[3](0, to.cents + t.cents, reserve.cents - lack);
      }
    }
  }
  records[k] = r;
}
)";

  std::span<const Account> accounts_;
  std::span<const Transaction> block_;
  std::span<Record> records_;
  Override where_;
};

void apply(const Transaction& t, const Record& record, std::span<Account> accounts) {
  const std::uint32_t numbers[] = {t.from, t.to, t.reserve};
  for (std::uint32_t i = 0; i < record.writes; ++i) {
    accounts[numbers[i]].cents = record.after[i];
    ++accounts[numbers[i]].version;
  }
}

// Validates the records in order, and executes again what conflicts. Returns the number of these.
std::size_t commit(std::span<Account> accounts, std::span<const Transaction> block,
                   std::span<Record> records) {
  std::size_t conflicts = 0;
  for (std::size_t k = 0; k < block.size(); ++k) {
    const std::uint32_t numbers[] = {block[k].from, block[k].to, block[k].reserve};
    Record& record = records[k];
    bool current = true;
    for (std::uint32_t i = 0; i < record.reads; ++i)
      current = current && accounts[numbers[i]].version == record.seen[i];
    if (!current) {
      ++conflicts;
      record = executed(block[k], accounts);
    }
    apply(block[k], record, accounts);
  }
  return conflicts;
}

std::vector<Account> one_by_one(std::vector<Account> accounts,
                                std::span<const Transaction> transactions) {
  for (const Transaction& t : transactions) apply(t, executed(t, accounts), accounts);
  return accounts;
}

bool same(std::span<const Account> a, std::span<const Account> b) {
  return std::ranges::equal(a, b, [](const Account& x, const Account& y) {
    return x.cents == y.cents && x.version == y.version;
  });
}

std::vector<Transaction> make_transactions(std::size_t count, std::uint32_t accounts) {
  std::mt19937 random(11);
  std::vector<Transaction> out(count);
  for (Transaction& t : out) {
    const auto any = [&] { return static_cast<std::uint32_t>(random() % accounts); };
    t = {.from = any(), .to = any(), .reserve = any(), .cents = 1 + any() % 500};
  }
  return out;
}

// serialisable [transactions]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::size_t>(100'000, 100);
  // Includes the software device, so that both backends run on any machine.
  tg::hybrid::Executor executor(tg::hybrid::environment_hybrid_options({.admit_software = true}));
  const bool device = tg::add_devices(executor) > 0;
  const std::size_t block = std::min<std::size_t>(count, 4096);

  bool right = true;
  // Few accounts: most transactions of a block conflict. Many: few do.
  for (const std::uint32_t accounts : {64u, 4'096u, 1'000'000u}) {
    const std::vector<Transaction> all = make_transactions(count, accounts);
    const std::vector<Account> before(accounts, Account{.cents = 600, .version = 0});
    const std::vector<Account> expected = one_by_one(before, all);
    std::vector<Override> ways = {Override::cpu, Override::none};
    if (device) ways.push_back(Override::device);
    for (const Override where : ways) {
      std::vector<Account> state = before;
      std::vector<Record> records(block);
      std::size_t conflicts = 0;
      std::string ran;
      const double start = executor.scheduler().now();
      for (std::size_t first = 0; first < count; first += block) {
        const auto now = std::span(all).subspan(first, std::min(block, count - first));
        const std::span<Record> of(records.data(), now.size());
        Execute task(state, now, of, where);
        ran = executor.execute(task).device;
        conflicts += commit(state, now, of);
      }
      const double us = 1e6 * (executor.scheduler().now() - start);
      const bool equal = same(state, expected);
      right = right && equal;
      std::printf("%7u accounts: %5.1f %% executed again, %6.2f million a second (%s)%s\n",
                  accounts, 100.0 * static_cast<double>(conflicts) / static_cast<double>(count),
                  static_cast<double>(count) / us, ran.c_str(),
                  equal ? "" : ", and the balances are not those of one by one");
    }
    std::uint64_t money = 0;
    for (const Account& account : expected) money += account.cents;
    right = right && money == std::uint64_t{600} * accounts;
  }
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "serialisable [TRANSACTIONS]", program);
}
